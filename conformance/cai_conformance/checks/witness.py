"""Witnesses: what a check must have met for its pass to mean something, and how often a judge met it.

A check declares its witnesses; its judge counts them while it judges, from the trace or from what an engine gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Witness:
    """What has to be met, such as a rejected guess.

    Attributes:
        one, many: what it is, of one and of several; `many` is its name within a check.
        least: how often it has to be met; 0 for what is only told.
        cases: the cases of the check that need it; empty for all of them.
        where: which models or inputs need it, in words; empty for all of them.
        excepted: the cases that do not need it.
    """

    one: str
    many: str
    least: int = 1
    cases: tuple[str, ...] = ()
    where: str = ""
    excepted: tuple[str, ...] = ()

    def of(self, *cases: str) -> Witness:
        """Return the same, needed in some cases only."""
        return replace(self, cases=cases)

    def but(self, *cases: str) -> Witness:
        """Return the same, needed in all cases but some."""
        return replace(self, excepted=cases)

    def at_least(self, least: int) -> Witness:
        """Return the same, needed more than once."""
        return replace(self, least=least)

    def met(self, count: int, *, needed: bool = True) -> Met:
        """Say how often it was met, and whether this model or input needs it."""
        return Met(self, max(0, int(count)), needed)

    def needed_in(self, case: str) -> bool:
        """Tell whether a case of the check needs it."""
        return case not in self.excepted and (not self.cases or case in self.cases)

    def __str__(self) -> str:
        text = f"at least {self.least} {self.one if self.least == 1 else self.many}"
        return f"{text}, {self.where}" if self.where else text


@dataclass(frozen=True)
class Met:
    """How often something was met.

    Attributes:
        witness: what.
        count: how often.
        needed: whether it is needed of this model or input; one that is needed of all cannot be waived.
    """

    witness: Witness
    count: int
    needed: bool = True

    @property
    def enough(self) -> bool:
        """Whether it was met as often as it has to be, or need not be."""
        waived = bool(self.witness.where) and not self.needed
        return waived or self.count >= self.witness.least

    @property
    def lack(self) -> str:
        """What is missing, in words."""
        few = f"only {self.count} of at least {self.witness.least} {self.witness.many}"
        return few if self.count else f"no {self.witness.many}"

    def __str__(self) -> str:
        return f"{self.count} {self.witness.one if self.count == 1 else self.witness.many}"


def told(met: Sequence[Met]) -> str:
    """Return what was met, as a list in words."""
    return ", ".join(map(str, met))


def unmet(met: Sequence[Met]) -> str:
    """Return what was needed and not met, in words; nothing if all was."""
    return ", ".join(each.lack for each in met if not each.enough)
