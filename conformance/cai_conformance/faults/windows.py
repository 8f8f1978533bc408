"""Faults of windows: one token more, one less, none. Short sequences hide all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from cai_conformance.faults.fault import FORWARD, Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import WINDOWED, given
from cai_reference.autograd import Tape, Variable, probability
from cai_reference.decoding.row_store import RowStore

Changed = Callable[[int], int | None]
"""Makes the wrong window of the right one."""


def _batch(planting: Planting, changed: Changed) -> None:
    right = probability.causal_softmax

    def wrong(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
        return right(tape, scores, None if window is None else changed(window))

    planting.function(right, wrong)


def _session(planting: Planting, changed: Changed) -> None:
    right = RowStore.empty

    def wrong(_: type[RowStore], width: int, capacity: int, window: int | None, slack: int) -> RowStore:
        return right(width, capacity, None if window is None else changed(window), slack)

    planting.method(RowStore, "empty", wrong)


def _both(planting: Planting, changed: Changed) -> None:
    _batch(planting, changed)
    _session(planting, changed)


def _longer(window: int) -> int:
    return window + 1


def _shorter(window: int) -> int:
    return max(1, window - 1)


def _none(window: int) -> None:
    return None


PRECEDENT: Final = "huggingface/transformers#39408; ml-explore/mlx-lm#390"

WINDOWS: Final = (
    Fault(
        "window.plus-one",
        "window one token too long",
        "The window counts the tokens before the current one instead of all that are seen.",
        PRECEDENT,
        FORWARD,
        partial(_both, changed=_longer),
        "window",
        kinds=("W01",),
        vehicles=given(WINDOWED, "cai.local-global"),
        expected=("kv.reach", "fwd.oracle", "kv.window"),
    ),
    Fault(
        "window.minus-one",
        "window one token too short",
        "The comparison at the window's edge is strict on both sides.",
        PRECEDENT,
        FORWARD,
        partial(_both, changed=_shorter),
        "window",
        kinds=("W02",),
        vehicles=given(WINDOWED, "cai.local-global"),
        expected=("kv.reach", "fwd.oracle", "kv.window"),
    ),
    Fault(
        "window.none",
        "window ignored",
        "Every query sees everything before it.",
        "karpathy/nanochat#456; EricLBuehler/mistral.rs#2094",
        FORWARD,
        partial(_both, changed=_none),
        "window",
        vehicles=given(WINDOWED),
        expected=("kv.reach", "kv.window"),
    ),
    Fault(
        "cache.window-ignored",
        "the cached path ignores the window",
        "The batch path masks by the window; the cached path attends to every row that is there.",
        "huggingface/candle#3698; huggingface/transformers#32522",
        frozenset({Place.SESSION}),
        partial(_session, changed=_none),
        kinds=("W03",),
        vehicles=given(WINDOWED, "cai.local-global"),
        expected=("kv.reach", "kv.split", "kv.steps"),
    ),
)
"""What is wrong with windows, in both paths or in the cached one alone."""
