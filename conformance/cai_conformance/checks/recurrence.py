"""The judges of recurrent layers: a state that is carried over from call to call, and around lengths of calls."""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.kv_cache import NAMED_CUTS, RETURNS, cut_rows, going_on, judge_snapshot
from cai_conformance.checks.probe.driven import fed_by
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rows import ROWS, RowComparison, concluded, reshaped
from cai_conformance.checks.witness import Witness
from cai_conformance.verdicts import Level

BEHIND: Final = Witness("row behind a state", "rows behind a state")
CALLS: Final = Witness("call", "calls")
LATEST: Final = 13
NO_RECURRENCE: Final = "no layer of the model is known to be recurrent"


@self_check(
    "ssm.split",
    Level.I2,
    "a recurrent state is carried over from call to call",
    "A first call of one token, of two, and of half the sequence: each hides mistakes that another one shows.",
    cases=tuple(NAMED_CUTS),
    witnesses=(ROWS, BEHIND),
    of="recurrent",
    catches="ssm.chunk-from-zero ssm.one-step-a-call",
)
def judge_split(probe: Probe) -> tuple[Finding, ...]:
    """Cut a sequence after one token, after two, and in half."""
    if not probe.facts.recurrent:
        return (Finding.skipped(NO_RECURRENCE),)
    findings: list[Finding] = []
    for case, cut in NAMED_CUTS.items():
        comparison, rows = RowComparison(reshaped(probe)), cut_rows(probe)[cut]
        comparison.compare(probe.rows()[:, cut : cut + rows.shape[1]], rows, f"the second call, cut after {cut}")
        findings.append(concluded(comparison, [BEHIND.met(rows.shape[1])], case))
    return tuple(findings)


@self_check(
    "ssm.boundary",
    Level.I2,
    "calls a token shorter or longer than a chunk carry the state over as well",
    "Three calls each of a length one below the chunk size, at it, and one above.",
    witnesses=(ROWS, CALLS),
    of="recurrent",
)
@going_on
def judge_boundary(probe: Probe) -> tuple[Finding, ...]:
    """Feed calls one shorter than a chunk, as long, and one longer, three of each."""
    if not probe.facts.recurrent:
        return (Finding.skipped(NO_RECURRENCE),)
    comparison, calls = RowComparison(reshaped(probe)), 0
    for size in range(probe.facts.chunk - 1, probe.facts.chunk + 2):
        count = min(LATEST, probe.length)
        cuts = range(size, count, size)
        rows = fed_by(EngineSession(probe.engine), probe.ids[:count], cuts)
        comparison.compare(probe.rows()[:, :count], rows, f"calls of {size} tokens")
        calls += len(cuts) + 1
    return (concluded(comparison, [CALLS.met(calls)]),)


@self_check(
    "ssm.snap",
    Level.I2,
    "a copy of a state can be returned to, more than once",
    "A state that is shared instead of copied goes on when the other slot does.",
    witnesses=(ROWS, RETURNS),
    of="recurrent",
)
@going_on
def judge_state_copy(probe: Probe) -> tuple[Finding, ...]:
    """Return to a copy of a slot."""
    return judge_snapshot(probe) if probe.facts.recurrent else (Finding.skipped(NO_RECURRENCE),)
