"""Where a fault shows: a suite, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Way(StrEnum):
    """What is asked of a wrong backend."""

    GIVEN = "given"
    """Vector cases and calls on given weights, in fast arithmetic; nothing is trained."""
    EXACT = "exact"
    """The vector cases that need no model of the decode suites, in `strict/1`, where every bit counts."""
    RUN = "run"
    """The suite's own run, whole: data, training, decoding by every arm, and its trace."""


@dataclass(frozen=True, order=True)
class Workload:
    """One suite in one way."""

    suite: str
    way: Way

    def __str__(self) -> str:
        """Return suite and way, such as `llama.dense given`."""
        return f"{self.suite} {self.way.value}"


def given(*suites: str) -> tuple[Workload, ...]:
    """Return suites that are asked on given weights."""
    return tuple(Workload(suite, Way.GIVEN) for suite in suites)


def exact(*suites: str) -> tuple[Workload, ...]:
    """Return suites that are asked their vector cases in every bit."""
    return tuple(Workload(suite, Way.EXACT) for suite in suites)


def run(*suites: str) -> tuple[Workload, ...]:
    """Return suites whose own run is asked for."""
    return tuple(Workload(suite, Way.RUN) for suite in suites)


DENSE: Final = "llama.dense"
WINDOWED: Final = "llama.gqa-window"
COURSE: Final = "course.decoder"
NGRAM: Final = "course.ngram"


@dataclass(frozen=True)
class Sight:
    """How `course.ngram` sees a fault: a row of the page about what its printed trace cannot see.

    Attributes:
        cases: the vector cases, such as `tok.fit[tie]`, or checks of the run that must fail; the first is explained.
        how: by what the first of them sees it.
        printed: which printed traces show it: none, `published`, `embedded`, or `both`.
    """

    cases: tuple[str, ...]
    how: str
    printed: str = ""
