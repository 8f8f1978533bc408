"""Faults of windows: one token more, one less, none. Short sequences hide all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cai_conformance.faults.fault import FORWARD, SESSION, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import WINDOWED, given
from cai_reference.decoding.layer_states import RowStore
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.layers.multi_head_attention import Attention


def _read(patch: Patch, changed: Callable[[int], int | None]) -> None:
    """Let every mixer that has a window read another one."""
    for mixer in (Attention, GroupedQueryAttention):
        patch.setting(mixer, "window", lambda window: None if window is None else changed(window))


PRECEDENT: Final = "huggingface/transformers#39408; ml-explore/mlx-lm#390"


_window = Family(FORWARD, given(WINDOWED, "cai.local-global"))


@_window(
    "window.plus-one",
    "window one token too long",
    "kv.reach fwd.oracle kv.window",
    seen_in=PRECEDENT,
    knob="window",
    kinds="W01",
)
def _plus_one(patch: Patch) -> None:
    """The window counts the tokens before the current one instead of all that are seen."""
    _read(patch, lambda window: window + 1)


@_window(
    "window.minus-one",
    "window one token too short",
    "kv.reach fwd.oracle kv.window",
    seen_in=PRECEDENT,
    knob="window",
    kinds="W02",
)
def _minus_one(patch: Patch) -> None:
    """The comparison at the window's edge is strict on both sides."""
    _read(patch, lambda window: max(1, window - 1))


@_window(
    "window.none",
    "window ignored",
    "kv.reach kv.window",
    seen_in="karpathy/nanochat#456; EricLBuehler/mistral.rs#2094",
    knob="window",
    workloads=given(WINDOWED),
)
def _none_window(patch: Patch) -> None:
    """Every query sees everything before it."""
    _read(patch, lambda window: None)


@_window(
    "cache.window-ignored",
    "the cached path ignores the window",
    "kv.reach kv.split kv.steps",
    seen_in="huggingface/candle#3698; huggingface/transformers#32522",
    kinds="W03",
    places=SESSION,
)
def _window_ignored(patch: Patch) -> None:
    """The batch path masks by the window; the cached path attends to every row that is there."""
    patch.arguments((RowStore, "empty"), window=None)


WINDOW: Final = tuple(_window)
"""What is wrong with windows, in both paths or in the cached one alone."""
