"""The judges of calls: token by token, and in two calls cut anywhere, a sequence gives the rows of one whole call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.engines.errors import Refused
from cai_conformance.engines.path import EngineSession, evaluate_one
from cai_conformance.engines.protocol import Piece
from cai_conformance.judges.engines.comparing import RowComparison, reshaped
from cai_conformance.judges.engines.driving import ProbeJudge, fed_by
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array

STEPS: Final = 12
"""How many tokens are fed one by one; more where a window has to be left."""
CUT: Final = 9
"""How many tokens are cut in two."""
CASES: Final = {"one": 1, "two": 2, "half": CUT // 2}
"""Cuts that are named: a first call of one token, of two, and of half the sequence."""

CALLS: Final = Witness("call of one token", "calls of one token")
CUTS: Final = Witness("cut in two", "cuts in two")
BEYOND: Final = Witness(
    "row beyond the window", "rows beyond the window", where="if a window is shorter than the sequence"
)
STEPS_WITNESSES: Final = (CALLS, BEYOND)
CUTS_WITNESSES: Final = (CUTS, BEYOND)


def judge_steps(probe: Probe) -> tuple[Finding, ...]:
    """Feed one token a call, and compare every row."""
    window, base = probe.facts.window, probe.rows()
    count = min(probe.length, max(STEPS, 0 if window is None else window + 3))
    comparison = RowComparison(reshaped(probe))
    rows = fed_by(EngineSession(probe.engine), probe.ids[:count], range(1, count))
    for place in range(count):
        comparison.compare(
            base[:, place : place + 1], rows[:, place : place + 1], f"token {place} in a call of its own"
        )
    return (concluded(comparison, [CALLS.met(count), *beyond_window(probe, count)]),)


def judge_cuts(probe: Probe) -> tuple[Finding, ...]:
    """Cut a sequence in two at every place, and compare every row of the second call."""
    comparison, rows = RowComparison(reshaped(probe)), cut_rows(probe)
    for cut, found in rows.items():
        comparison.compare(probe.rows()[:, cut : cut + found.shape[1]], found, f"the second call, cut after {cut}")
    count = max(rows, default=0) + 1
    return (concluded(comparison, [CUTS.met(len(rows)), *beyond_window(probe, count)]),)


def cut_rows(probe: Probe) -> Mapping[int, Array]:
    """Return, for each cut, the rows [heads, tokens, vocabulary] of the second of two calls.

    Raises:
        AnswerOutOfShape, EngineError: the engine failed.
    """
    return probe.memory.remembered("rows of cuts", lambda: _cut_rows(probe))


def going_on(judge: ProbeJudge) -> ProbeJudge:
    """Return a judge for which a refusal is a failure, unless the engine never goes on behind a first call.

    What refuses to go on after a cut, a copy or a failed call has lost count of its tokens.
    """

    def judged(probe: Probe) -> tuple[Finding, ...]:
        cut_rows(probe)
        try:
            return judge(probe)
        except Refused as error:
            return (Finding.failed(f"what the engine takes elsewhere it refuses here: {error}"),)

    return judged


def beyond_window(probe: Probe, count: int) -> list[Met]:
    """Say how many of the first `count` rows no longer see the first token, if there is a window that can be left."""
    window = probe.facts.window
    if window is None:
        return []
    return [BEYOND.met(count - window, needed=window < probe.length)]


def _cut_rows(probe: Probe) -> Mapping[int, Array]:
    ids, engine = probe.ids[:CUT], probe.engine
    rows: dict[int, Array] = {}
    for cut in range(1, len(ids)):
        engine.clear(0)
        # Rows of a first call are those of a whole sequence, which are compared elsewhere.
        evaluate_one(engine, Piece(0, 0, ids[:cut], ()))
        second = tuple(range(len(ids) - cut))
        rows[cut] = evaluate_one(engine, Piece(0, cut, ids[cut:], second)).logits
    return rows
