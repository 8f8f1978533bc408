"""What a judge returns: one finding a case, before the runner makes verdicts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cai_conformance.judges.witness import Met
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
