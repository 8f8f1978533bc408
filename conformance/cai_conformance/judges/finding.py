"""What a judge returns: one finding a case, before the runner makes verdicts of them."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.verdicts import Difference, Outcome


@dataclass(frozen=True)
class Finding:
    """The outcome of one case of a check; `case` is empty where the check has none."""

    outcome: Outcome
    message: str
    differences: tuple[Difference, ...] = ()
    case: str = ""

    @classmethod
    def passed(cls, message: str, case: str = "") -> Finding:
        """Say what holds."""
        return cls(Outcome.PASS, message, case=case)

    @classmethod
    def skipped(cls, reason: str, case: str = "") -> Finding:
        """Say why there is nothing to judge."""
        return cls(Outcome.SKIPPED, reason, case=case)

    @classmethod
    def failed(cls, message: str, differences: tuple[Difference, ...] = (), case: str = "") -> Finding:
        """Say what does not hold, first difference first."""
        return cls(Outcome.FAIL, message, differences, case)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
