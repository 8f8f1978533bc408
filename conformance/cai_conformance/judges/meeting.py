"""Holding a pass against the witnesses of its check: one that met too little shows nothing.

On a suite's own questions that is a failure, for whoever answers them has left something out. On an input of the
user's, which may have nothing to meet, it is skipped. A near tie says by itself what it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Met, Witness, unmet
from cai_conformance.verdicts import Outcome


def witnessed(finding: Finding, witnesses: Sequence[Witness], *, own: bool = True) -> Finding:
    """Return a finding, or that it shows nothing, if it is a pass that met too little.

    Args:
        finding: of one case, or of all. What was met of other things than its witnesses is left out.
        witnesses: those of its check. What a judge did not count was not met.
        own: whether the question is the suite's own, which has enough to meet.
    """
    if finding.outcome is not Outcome.PASS:
        return finding
    counts = {each.witness.many: each for each in finding.met}
    met = tuple(
        replace(counts.get(each.many, Met(each, 0, needed=not each.where)), witness=each)
        for each in witnesses
        if each.needed_in(finding.case)
    )
    missing = unmet(met)
    if not missing:
        return replace(finding, met=met) if witnesses else finding
    text = f"this shows nothing, for it met {missing}; {finding.message}"
    return replace(finding, outcome=Outcome.FAIL if own else Outcome.SKIPPED, message=text, met=met)
