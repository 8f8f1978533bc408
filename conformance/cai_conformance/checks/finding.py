"""What a check returns: one finding a case, before the runner makes verdicts of them.

A pass is held against the witnesses of its check: one that met too little shows nothing. On a suite's own questions
that is a failure, for whoever answers them has left something out. On an input of the user's, which may have nothing
to meet, it is skipped. A near tie says by itself what it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cai_conformance.checks.witness import Met, Witness, unmet
from cai_conformance.verdicts import Difference, Outcome


@dataclass(frozen=True)
class Finding:
    """The outcome of one case of a check; `case` is empty where the check has none.

    Attributes:
        outcome, message, differences, case: as those of a verdict.
        met: what was counted on the way, for the witnesses of the check.
    """

    outcome: Outcome
    message: str
    differences: tuple[Difference, ...] = ()
    case: str = ""
    met: tuple[Met, ...] = ()

    @classmethod
    def passed(cls, message: str, case: str = "", met: Sequence[Met] = ()) -> Finding:
        """Say what holds, and what was met."""
        return cls(Outcome.PASS, message, case=case, met=tuple(met))

    @classmethod
    def skipped(cls, reason: str, case: str = "") -> Finding:
        """Say why there is nothing to judge."""
        return cls(Outcome.SKIPPED, reason, case=case)

    @classmethod
    def failed(cls, message: str, differences: tuple[Difference, ...] = (), case: str = "") -> Finding:
        """Say what does not hold, first difference first."""
        return cls(Outcome.FAIL, message, differences, case)

    def having_met(self, *met: Met) -> Finding:
        """Return the same, with what was met."""
        return replace(self, met=(*self.met, *met))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
