"""Faults of what sessions are stored in: memory that is shared, and counts that are not those of what is held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Array
from cai_reference.decoding import layer_states
from cai_reference.decoding.layer_states import Accounting, LayerState
from cai_reference.decoding.row_store import RowStore
from cai_reference.decoding.session import Session

SESSION: Final = frozenset({Place.SESSION})


def _shared(planting: Planting) -> None:
    """Give every store of one kind the memory of the first one that was made beside it, layer by layer."""
    right = RowStore.empty
    opened, made = Session.reset, dict[tuple[int, ...], Array]()
    place = 0

    def wrong_reset(session: Session) -> None:
        nonlocal place
        place = 0
        opened(session)

    def wrong(_: type[RowStore], width: int, capacity: int, window: int | None, slack: int) -> RowStore:
        nonlocal place
        place += 1
        store = right(width, capacity, window, slack)
        return replace(store, storage=made.setdefault((place, *store.storage.shape), store.storage))

    def wrong_writable(store: RowStore) -> RowStore:
        return store

    planting.method(Session, "reset", wrong_reset)
    planting.method(RowStore, "empty", wrong)
    planting.method(RowStore, "writable", wrong_writable)


def _counted(planting: Planting, changed: str) -> None:
    right = layer_states.account

    def wrong(stores: tuple[RowStore, ...], formula: str) -> Accounting:
        found = right(stores, formula)
        return replace(found, floats=found.allocated if changed == "allocated" else found.floats + found.slack)

    planting.function(right, wrong)


def _heads_exchanged(planting: Planting) -> None:
    """Give the logits of later heads in the opposite order; the first head stays."""
    right = Session.feed

    def wrong(session: Session, ids: Sequence[int]) -> list[Array]:
        heads = right(session, ids)
        return [heads[0], *heads[:0:-1]]

    planting.method(Session, "feed", wrong)


def _heads_behind(planting: Planting) -> None:
    """Give later heads the row of the token before; the first head stays."""
    right = Session._computed

    def wrong(session: Session, ids: Sequence[int]) -> tuple[list[Array], tuple[LayerState, ...]]:
        heads, states = right(session, ids)
        return [heads[0], *(np.roll(rows, 1, axis=0) for rows in heads[1:])], states

    planting.method(Session, "_computed", wrong)


def _last_rows_only(planting: Planting) -> None:
    """Answer with the newest row for every token of a call."""
    right = Session.feed

    def wrong(session: Session, ids: Sequence[int]) -> list[Array]:
        return [np.broadcast_to(rows[-1], rows.shape) for rows in right(session, ids)]

    planting.method(Session, "feed", wrong)


STORING: Final = (
    Fault(
        "cache.memory-shared",
        "sessions share their memory",
        "A pool hands out rows that somebody else still reads. One sequence at a time hides it.",
        "tanishqkumar/ssd#23; lmstudio-ai/mlx-engine#177",
        SESSION,
        _shared,
        vehicles=given(DENSE, "cai.kv-cache"),
        expected=("kv.batch",),
    ),
    Fault(
        "cache.allocation-counted",
        "what is allocated is counted as held",
        "Every cache looks full from the first token on.",
        "",
        SESSION,
        partial(_counted, changed="allocated"),
        vehicles=run(DENSE),
        expected=("cache.formula",),
    ),
    Fault(
        "cache.slack-counted",
        "rows kept for rolling back are counted as live",
        "Only a layer with a window has any.",
        "",
        SESSION,
        partial(_counted, changed="slack"),
        vehicles=run(WINDOWED),
        expected=("cache.formula",),
    ),
    Fault(
        "cache.later-heads-exchanged",
        "the cached path gives later heads in another order",
        "The first head is right, so that only guesses show it.",
        "",
        SESSION,
        _heads_exchanged,
        kinds=("P10",),
        vehicles=run("cai.multi-token"),
        expected=("spec.cache", "run.decode"),
    ),
    Fault(
        "cache.later-heads-behind",
        "the cached path gives later heads the row before",
        "They guess from the token before the newest one. One token a call hides it, and the first head is right.",
        "vllm-project/vllm#14649",
        SESSION,
        _heads_behind,
        kinds=("P10",),
        vehicles=given("cai.multi-token"),
        expected=("mtp.self",),
    ),
    Fault(
        "cache.newest-row-only",
        "every token of a call is answered by the newest row",
        "A call gives one row, and whoever verifies guesses reads it for all of them. One token a call hides it.",
        "",
        SESSION,
        _last_rows_only,
        vehicles=given(DENSE, "cai.speculative"),
        expected=("gen.given", "kv.cuts", "spec.rows"),
    ),
)
"""What is wrong with memory, counts and answers of a session whose computation is right."""
