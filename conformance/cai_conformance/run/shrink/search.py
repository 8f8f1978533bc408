"""A case: a model, and what is asked about it. A check with questions of its own is asked about the model alone.

A search for a smallest case that still fails: greedy, deterministic, bounded.

Ways to make a case smaller are walked through in their order, each for as long as it helps, until a whole round of
them changes nothing. No case is tried twice. What is found is a local minimum: no single way makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeAlias, TypeVar

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
Tried = TypeVar("Tried", bound=Hashable, contravariant=True)

Reducer: TypeAlias = Callable[[Item], Iterable[Item]]
"""Yields smaller cases, those first that leave out most. Which of them fail is not its matter."""


class Fails(Protocol[Tried]):
    """Tells whether a case fails in the way that is looked for; it says the same whenever it is asked."""

    def __call__(self, case: Tried, /) -> bool:
        """Try a case."""
        ...


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
    search = _Search(case, fails, most)
    while search.round(reducers):
        pass
    return Shrunk(search.case, search.trials, finished=not search.used_up)


class _Search(Generic[Item]):
    """One search: the smallest case so far, and every case that was tried."""

    def __init__(self, case: Item, fails: Fails[Item], most: int) -> None:
        self.case, self.trials, self.used_up = case, 0, False
        self._fails, self._most, self._seen = fails, most, {case}

    def round(self, reducers: Sequence[Reducer[Item]]) -> bool:
        """Walk through all ways, each for as long as it helps; return whether one helped and there are trials left."""
        before = self.case
        for reducer in reducers:
            while self._step(reducer):
                pass
        return self.case != before and not self.used_up

    def _step(self, reducer: Reducer[Item]) -> bool:
        """Take the first smaller case that fails; return whether there was one."""
        for candidate in reducer(self.case):
            if candidate in self._seen:
                continue
            if self.trials == self._most:
                self.used_up = True
                return False
            self._seen.add(candidate)
            self.trials += 1
            if self._fails(candidate):
                self.case = candidate
                return True
        return False
