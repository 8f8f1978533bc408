"""A case: a model, and what is asked about it. A check with questions of its own is asked about the model alone.

A search for a smallest case that still fails: greedy, deterministic, bounded.

Ways to make a case smaller are walked through in their order, each for as long as it helps, until a whole round of
them changes nothing. No case is tried twice. What is found is a local minimum: no single way makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from cai_conformance.checks.probe.self_check import SelfCheck
from cai_conformance.run.probe.batches import BatchCheck, Batches
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.probe.sequences import SequenceCheck
from cai_conformance.run.shrink.models import SmallModel

Asked: TypeAlias = Calls | Batches | None


@dataclass(frozen=True)
class ModelCheck:
    """A check of self-consistency with questions of its own, or one case of it."""

    check: SelfCheck
    case: str = ""

    @property
    def identifier(self) -> str:
        """Name and case, such as `kv.window[full]`."""
        return f"{self.check.name}[{self.case}]" if self.case else self.check.name


AnyCheck: TypeAlias = SequenceCheck | BatchCheck | ModelCheck


@dataclass(frozen=True)
class Case:
    """A model, and what is asked about it.

    Attributes:
        model: which, with its weights.
        asked: a sequence in calls, or batches to train on; None where the check asks by itself.
    """

    model: SmallModel
    asked: Asked

    @property
    def ids(self) -> tuple[int, ...]:
        """Every id that is fed, in order."""
        if isinstance(self.asked, Calls):
            return self.asked.prompt
        return self.asked.ids if isinstance(self.asked, Batches) else ()

    def with_ids(self, ids: Sequence[int]) -> Case:
        """Return the same question with other ids, as many."""
        if isinstance(self.asked, Calls):
            return replace(self, asked=self.asked.with_ids(ids))
        if isinstance(self.asked, Batches):
            return replace(self, asked=self.asked.with_ids(ids))
        return self


Item = TypeVar("Item", bound=Hashable)

Reducer: TypeAlias = Callable[[Item], Iterable[Item]]
"""Yields smaller cases, those first that leave out most. Which of them fail is not its matter."""


Fails: TypeAlias = Callable[[Item], bool]
"""Tells whether a case fails in the way that is looked for; it says the same whenever it is asked."""


@dataclass(frozen=True)
class Shrunk(Generic[Item]):
    """What was found.

    Attributes:
        case: the smallest one that fails.
        trials: how many cases were tried.
        finished: whether nothing smaller was left to be tried; False where the trials were used up.
    """

    case: Item
    trials: int
    finished: bool


def shrink(case: Item, reducers: Sequence[Reducer[Item]], fails: Fails[Item], most: int) -> Shrunk[Item]:
    """Return a smallest case.

    Args:
        case: one that fails.
        reducers: ways to make a case smaller.
        fails: tells whether another case fails.
        most: how many cases are tried at most.
    """
    trials, seen = 0, {case}
    before: Item | None = None
    while case != before:
        before = case
        for reducer in reducers:
            candidates = iter(reducer(case))
            while (candidate := next(candidates, None)) is not None:
                if candidate in seen:
                    continue
                if trials == most:
                    return Shrunk(case, trials, finished=False)
                seen.add(candidate)
                trials += 1
                if fails(candidate):
                    # A way is gone on with for as long as it helps.
                    case = candidate
                    candidates = iter(reducer(case))
    return Shrunk(case, trials, finished=True)
