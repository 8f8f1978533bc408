"""A search for a smallest case that still fails: greedy, deterministic, bounded.

Ways to make a case smaller are walked through in their order, each for as long as it helps, until a whole round of
them changes nothing. No case is tried twice. What is found is a local minimum: no single way makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

Case = TypeVar("Case", bound=Hashable)
Tried = TypeVar("Tried", bound=Hashable, contravariant=True)

Reducer: TypeAlias = Callable[[Case], Iterable[Case]]
"""Yields smaller cases, those first that leave out most. Which of them fail is not its matter."""


class Fails(Protocol[Tried]):
    """Tells whether a case fails in the way that is looked for; it says the same whenever it is asked."""

    def __call__(self, case: Tried, /) -> bool:
        """Try a case."""
        ...


@dataclass(frozen=True)
class Shrunk(Generic[Case]):
    """What was found.

    Attributes:
        case: the smallest one that fails.
        trials: how many cases were tried.
        finished: whether nothing smaller was left to be tried; False where the trials were used up.
    """

    case: Case
    trials: int
    finished: bool


def shrink(case: Case, reducers: Sequence[Reducer[Case]], fails: Fails[Case], most: int) -> Shrunk[Case]:
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


class _Search(Generic[Case]):
    """One search: the smallest case so far, and every case that was tried."""

    def __init__(self, case: Case, fails: Fails[Case], most: int) -> None:
        self.case, self.trials, self.used_up = case, 0, False
        self._fails, self._most, self._seen = fails, most, {case}

    def round(self, reducers: Sequence[Reducer[Case]]) -> bool:
        """Walk through all ways, each for as long as it helps; return whether one helped and there are trials left."""
        before = self.case
        for reducer in reducers:
            while self._step(reducer):
                pass
        return self.case != before and not self.used_up

    def _step(self, reducer: Reducer[Case]) -> bool:
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
