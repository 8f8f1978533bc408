"""The judges of recurrent layers: a state that is carried over from call to call, and around lengths of calls."""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.path import EngineSession
from cai_conformance.judges.engines.comparing import RowComparison, reshaped
from cai_conformance.judges.engines.cutting import CASES as CUTS
from cai_conformance.judges.engines.cutting import cut_rows
from cai_conformance.judges.engines.driving import fed_by
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.engines.reusing import judge_snapshot
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness
from cai_conformance.probing.probe import Probe

SPLIT_CASES: Final = tuple(CUTS)
BEHIND: Final = Witness("row behind a state", "rows behind a state")
CALLS: Final = Witness("call", "calls")
SPLIT_WITNESSES: Final = (BEHIND,)
BOUNDARY_WITNESSES: Final = (CALLS,)
LATEST: Final = 13
NO_RECURRENCE: Final = "no layer of the model is known to be recurrent"


def judge_split(probe: Probe) -> tuple[Finding, ...]:
    """Cut a sequence after one token, after two, and in half."""
    if not probe.facts.recurrent:
        return (Finding.skipped(NO_RECURRENCE),)
    findings: list[Finding] = []
    for case, cut in CUTS.items():
        comparison, rows = RowComparison(reshaped(probe)), cut_rows(probe)[cut]
        comparison.compare(probe.rows()[:, cut : cut + rows.shape[1]], rows, f"the second call, cut after {cut}")
        findings.append(concluded(comparison, [BEHIND.met(rows.shape[1])], case))
    return tuple(findings)


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


def judge_state_copy(probe: Probe) -> tuple[Finding, ...]:
    """Return to a copy of a slot."""
    return judge_snapshot(probe) if probe.facts.recurrent else (Finding.skipped(NO_RECURRENCE),)
