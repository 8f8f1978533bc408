"""The judges of slots that are used again: after another sequence, and as copies of each other."""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.errors import Refused
from cai_conformance.engines.features import copying
from cai_conformance.engines.path import EngineSession, evaluate_one
from cai_conformance.engines.protocol import Piece
from cai_conformance.judges.engines.comparing import RowComparison, repeated, reshaped
from cai_conformance.judges.engines.driving import fed, fed_by
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array

CASES: Final = ("clear", "copy")
OTHERS: Final = Witness("other sequence", "other sequences", cases=("clear",))
COPIES: Final = Witness("copy", "copies", cases=("copy",))
RETURNS: Final = Witness("return to a copy", "returns to a copy")
WITNESSES: Final = (OTHERS, COPIES)
SNAPSHOT_WITNESSES: Final = (RETURNS,)
FIRST, LENGTH = 4, 8
"""Where a sequence is cut in two calls, and how long it is."""
OTHER_SEED: Final = 402
NO_COPY: Final = "the engine has no feature copy, or one slot only"


def judge_reuse(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate A, B and A in one slot; go on with both of two slots after one was copied into the other."""
    try:
        copied = _after_copy(probe)
    except Refused as error:
        copied = Finding.failed(f"a slot whose copy was fed does not go on: {error}", case="copy")
    return (_after_clear(probe), copied)


def judge_snapshot(probe: Probe) -> tuple[Finding, ...]:
    """Keep a copy of a slot, spoil the slot, and return to the copy, twice."""
    if not _can_copy(probe):
        return (Finding.skipped(NO_COPY),)
    copier = copying(probe.engine)
    assert copier is not None
    comparison, spoilt, base = RowComparison(reshaped(probe)), probe.others(FIRST, 3), probe.rows()
    fed(EngineSession(probe.engine), probe.ids[:FIRST])
    copier.copy(0, 1)
    for attempt in ("once", "twice"):
        _on(probe, 0, FIRST, spoilt)
        copier.copy(1, 0)
        found = _on(probe, 0, FIRST, probe.ids[FIRST : FIRST + 2])
        comparison.compare(base[:, FIRST : FIRST + 2], found, f"after returning {attempt} to a copy")
        copier.copy(1, 0)
    _clear(probe)
    return (concluded(comparison, [RETURNS.met(2)]),)


def _after_clear(probe: Probe) -> Finding:
    ids, comparison = probe.ids[:LENGTH], RowComparison(repeated(probe))
    other = probe.drawn(OTHER_SEED, LENGTH - 2)
    first = fed_by(EngineSession(probe.engine), ids, (FIRST,))
    between = fed(EngineSession(probe.engine), other)
    again = fed_by(EngineSession(probe.engine), ids, (FIRST,))
    comparison.compare(first, again, "a sequence again, after another one")
    whole = RowComparison(reshaped(probe))
    whole.compare(probe.rows()[:, :LENGTH], first, "a sequence in a slot that was used before")
    moved = OTHERS.met(between.tobytes() != first[:, : LENGTH - 2].tobytes())
    return concluded(comparison if whole.holds else whole, [moved], "clear")


def _after_copy(probe: Probe) -> Finding:
    if not _can_copy(probe):
        return Finding.skipped(NO_COPY, "copy")
    copier = copying(probe.engine)
    assert copier is not None
    comparison, other = RowComparison(reshaped(probe)), probe.others(FIRST, 4)
    # Whole sequences are evaluated in a slot that is in use below, so they come first.
    probe.rows()
    fed(EngineSession(probe.engine), probe.ids[:FIRST])
    copier.copy(0, 1)
    _on(probe, 1, FIRST, other[:2])
    _compare(probe, comparison, 0, FIRST, "a slot whose copy went another way")
    copier.copy(0, 1)
    _on(probe, 0, FIRST + 2, other[2:])
    _compare(probe, comparison, 1, FIRST + 2, "the copy of a slot that went another way")
    _clear(probe)
    return concluded(comparison, [COPIES.met(2)], "copy")


def _compare(probe: Probe, comparison: RowComparison, slot: int, place: int, where: str) -> None:
    found = _on(probe, slot, place, probe.ids[place : place + 2])
    comparison.compare(probe.rows()[:, place : place + 2], found, where)


def _on(probe: Probe, slot: int, place: int, ids: tuple[int, ...]) -> Array:
    return evaluate_one(probe.engine, Piece(slot, place, ids, tuple(range(len(ids))))).logits


def _clear(probe: Probe) -> None:
    for slot in (0, 1):
        probe.engine.clear(slot)


def _can_copy(probe: Probe) -> bool:
    return copying(probe.engine) is not None and probe.description.slots > 1
