"""The judges of lengths: around what memory is divided by, and around what a slot can hold."""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.errors import Refused
from cai_conformance.engines.features import dropping
from cai_conformance.engines.path import EngineSession, full_logits
from cai_conformance.judges.engines.comparing import RowComparison, reshaped
from cai_conformance.judges.engines.driving import fed
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness, told
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array

CASES: Final = ("blocks", "capacity")
LENGTHS: Final = Witness("length around which calls end", "lengths around which calls end", cases=("blocks",))
TOKENS: Final = Witness("token", "tokens", cases=("capacity",))
REFUSALS: Final = Witness("refusal", "refusals", 2, ("capacity",))
WITNESSES: Final = (LENGTHS, TOKENS, REFUSALS)
BLOCKS: Final = (16, 32)
"""Lengths in which engines allocate rows."""
MOST_CAPACITY: Final = 512
"""A slot that holds more is not filled: that would take long, and show no more."""
CAPACITY_SEED: Final = 403


def judge_edges(probe: Probe) -> tuple[Finding, ...]:
    """Walk one slot past every edge by single tokens, up to the last token that fits."""
    # Whole sequences are evaluated in the slot that is walked, so they come first.
    probe.rows()
    session = EngineSession(probe.engine)
    return (_blocks(probe, session), _capacity(probe, session))


def _blocks(probe: Probe, session: EngineSession) -> Finding:
    window, base, comparison = probe.facts.window, probe.rows(), RowComparison(reshaped(probe))
    lengths = {probe.facts.chunk, *BLOCKS, *([] if window is None else [window])}
    edges = sorted(length for length in lengths if length < probe.length - 1)
    # A call up to one token before an edge, then the token that meets it, and the one behind.
    bounds = sorted({length + by for length in edges for by in (-1, 0, 1) if length + by > 0})
    for bound in bounds:
        first = session.length
        if bound > first:
            rows = fed(session, probe.ids[first:bound])
            comparison.compare(base[:, first:bound], rows, f"tokens {first} to {bound - 1}")
    return concluded(comparison, [LENGTHS.met(len(edges))], "blocks")


def _capacity(probe: Probe, session: EngineSession) -> Finding:
    capacity = probe.capacity
    if capacity is None:
        return Finding.skipped("the engine does not say how many tokens a slot holds", "capacity")
    if capacity > MOST_CAPACITY:
        return Finding.skipped(f"a slot holds {capacity} tokens, and no more than {MOST_CAPACITY} are fed", "capacity")
    ids, base = _whole(probe, capacity)
    if len(ids) != len(probe.ids):
        session = EngineSession(probe.engine)
    comparison = RowComparison(reshaped(probe))
    first, last = session.length, capacity - 1
    if last > first:
        comparison.compare(base[:, first:last], fed(session, ids[first:last]), f"tokens {first} to {last - 1}")
    refusals = _refused(session, ids[:2])
    if refusals:
        row = fed(session, ids[last:])
        comparison.compare(base[:, last:], row, "the last token that fits, after two were refused")
        refusals += _refused(session, ids[:1])
    met = [TOKENS.met(capacity), REFUSALS.met(refusals)]
    if refusals < REFUSALS.least:
        return Finding.failed(f"a slot that holds {capacity} tokens took one more; {told(met)}", case="capacity")
    if dropping(probe.engine) is not None:
        _once_more(session, ids, base, comparison)
    return concluded(comparison, met, "capacity")


def _whole(probe: Probe, capacity: int) -> tuple[tuple[int, ...], Array]:
    if capacity == probe.length:
        return probe.ids, probe.rows()
    ids = probe.drawn(CAPACITY_SEED, capacity)
    return ids, full_logits(probe.engine, ids)


def _refused(session: EngineSession, ids: tuple[int, ...]) -> int:
    try:
        session.feed(ids)
    except Refused:
        return 1
    return 0


def _once_more(session: EngineSession, ids: tuple[int, ...], base: Array, comparison: RowComparison) -> None:
    """See that the refusal in a full slot changed nothing: take the last token back, and feed it again."""
    last = session.length - 1
    try:
        session.truncate(last)
    except Refused:
        return
    comparison.compare(base[:, last:], fed(session, ids[last:]), "the last token again, after one more was refused")
