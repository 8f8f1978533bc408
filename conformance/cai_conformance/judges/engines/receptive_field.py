"""The judge of windows: how far the first token is felt is measured, and not believed.

A token reaches window − 1 places behind it in each layer, so that the last row that a change of the first token moves
stands at the sum of that over all layers.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.description import Nondeterminism
from cai_conformance.engines.path import EngineSession, full_logits
from cai_conformance.judges.engines.driving import fed_by
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array

CASES: Final = ("full", "cached")
MOVED: Final = Witness("row that moves", "rows that move")
STAYED: Final = Witness("row behind that stays", "rows behind that stay")
WITNESSES: Final = (MOVED, STAYED)
LONGEST: Final = 512
"""A longer sequence is not evaluated for this."""
SEED: Final = 404
BEYOND: Final = 3
"""How many rows are looked at behind the last one that may move."""
TRIES: Final = 3
"""How many other first tokens are tried: in few bits, a small influence is rounded away now and then."""


def judge_window(probe: Probe) -> tuple[Finding, ...]:
    """Exchange the first token, and look at which rows move, in one call and in several."""
    reason = _why_not(probe)
    if reason:
        return (Finding.skipped(reason),)
    reach = probe.facts.reach
    assert reach is not None
    ids = probe.drawn(SEED, reach + 1 + BEYOND)
    return tuple(_finding(probe, ids, reach, case) for case in CASES)


def _why_not(probe: Probe) -> str:
    facts = probe.facts
    if not facts.windows:
        return "which layers have a window is not known"
    if facts.window is None:
        return "no layer has a window"
    if facts.reach is None:
        return "a layer that sees everything hides what another one lets go of"
    most = min(limit for limit in (LONGEST, probe.capacity, facts.positions) if limit is not None)
    if facts.reach + 1 + BEYOND > most:
        return f"the first token is felt up to {facts.reach} places behind it, and {most} tokens are evaluated at most"
    if probe.description.nondeterminism is Nondeterminism.RUN:
        return "the engine's bits depend on chance, so that every row moves"
    return ""


def _finding(probe: Probe, ids: tuple[int, ...], reach: int, case: str) -> Finding:
    rows = _rows(probe, ids, case)
    furthest = -1
    moved: list[int] = []
    for attempt in range(1, TRIES + 1):
        other = (ids[0] + attempt * (probe.vocabulary // (TRIES + 1))) % probe.vocabulary
        others = _rows(probe, (other, *ids[1:]), case)
        moved = [place for place in range(len(ids)) if rows[:, place].tobytes() != others[:, place].tobytes()]
        furthest = max([furthest, *moved])
        if furthest >= reach:
            break
    layers, window = probe.facts.layers, probe.facts.window
    text = (
        f"another first token moves rows up to {furthest}; windows of {window} in {layers} layers reach up to {reach}"
    )
    if furthest == reach:
        stayed = len(ids) - reach - 1
        met = [MOVED.met(len(moved)), STAYED.met(stayed)]
        return Finding.passed(f"{text}; {stayed} rows behind stay in every bit", case, met)
    wrong = f"{text}: a window is {'longer' if furthest > reach else 'shorter'}, or rows are kept or lost"
    return Finding.failed(wrong, case=case)


def _rows(probe: Probe, ids: tuple[int, ...], case: str) -> Array:
    if case == "full":
        return full_logits(probe.engine, ids)
    # The first token and the last that it reaches stand alone in their calls.
    end = len(ids) - BEYOND
    return fed_by(EngineSession(probe.engine), ids, sorted({1, end - 1, end}))
