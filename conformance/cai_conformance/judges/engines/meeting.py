"""Witnesses: what a judge met on its way, and which of it it must have met for its verdict to mean something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_conformance.judges.engines.comparing import RowComparison
from cai_conformance.judges.finding import Finding


@dataclass(frozen=True)
class Met:
    """How often something was met.

    Attributes:
        count: how often.
        one, many: what, of one and of several.
        needed: whether without any there is nothing to judge.
    """

    count: int
    one: str
    many: str
    needed: bool = True

    def __str__(self) -> str:
        return f"{self.count} {self.one if self.count == 1 else self.many}"


def told(met: Sequence[Met]) -> str:
    """Return what was met, as a list in words."""
    return ", ".join(map(str, met))


def unmet(met: Sequence[Met]) -> str:
    """Return what was needed and not met; nothing if all was."""
    return ", ".join(each.many for each in met if each.needed and not each.count)


def concluded(comparison: RowComparison, met: Sequence[Met], case: str = "") -> Finding:
    """Return what a comparison found, unless it met nothing of what it needed: that is a failure of its own."""
    missing = unmet(met)
    if missing and comparison.holds:
        return Finding.failed(f"this shows nothing, for it met no {missing}; {told(met)}", case=case)
    return comparison.finding(told(met), case)
