"""The judge of rotary positions: only distances between tokens count, so a sequence may start anywhere."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.backends.engine.session import EngineSession, full_logits
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import fed_by
from cai_conformance.checks.probe.probe import FAR_START, Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rows import ROWS, RowComparison, concluded, restarted
from cai_conformance.checks.witness import Witness
from cai_conformance.engine import Refused
from cai_conformance.verdicts import Level

CASES: Final = ("near", "far")
STARTS: Final = Witness("later start", "later starts")
TOKENS: Final = 6
NEAR: Final = (1, 5)
CUT: Final = 3
"""Where a late sequence is cut in two calls."""
NO_ROTARY: Final = "no layer of the model is known to have rotary positions"


@self_check(
    "rope.shift",
    Level.I1,
    "the same tokens from a later start give the same logits",
    "Rotary attention sees distances, so a sequence may start anywhere in an empty slot. Keys or queries that are "
    "not turned, a start that a later call forgets, and angles in few digits show here.",
    cases=CASES,
    witnesses=(ROWS, STARTS),
    catches="attention.keys-unrotated mla.key-never-turned rope.angles-in-half-precision rope.start-forgotten",
)
def judge_shift(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate the same tokens from later starts, at once and in two calls."""
    if not probe.facts.rotary:
        return (Finding.skipped(NO_ROTARY),)
    allowances = {case: restarted(probe, far=case == "far") for case in CASES}
    probe.model.load()
    ids, positions = probe.ids[:TOKENS], probe.facts.positions
    right, last = probe.rows()[:, : len(ids)], np.inf if positions is None else positions - len(ids)
    findings: list[Finding] = []
    for case, starts in zip(CASES, (NEAR, (FAR_START,)), strict=True):
        comparison, asked = RowComparison(allowances[case]), [start for start in starts if start <= last]
        if not asked:
            findings.append(Finding.skipped(f"the model is told {positions} positions at most", case))
            continue
        try:
            comparison.compare(right, full_logits(probe.engine, ids, asked[0]), f"from position {asked[0]} on")
            cut = fed_by(EngineSession(probe.engine, start=asked[-1]), ids, (CUT,))
            comparison.compare(right, cut, f"from position {asked[-1]} on, cut after {CUT}")
        except Refused as error:
            findings.append(Finding.skipped(str(error), case))
            continue
        findings.append(concluded(comparison, [STARTS.met(len(asked))], case))
    return tuple(findings)
