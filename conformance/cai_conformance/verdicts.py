"""What a judge says: outcomes, levels, differences, verdicts, and the report that gathers them.

This file holds data, and the one clock. Who decides is in `cai_conformance.checks`, who prints in
`cai_conformance.report`.

Checks and decode arms are timed by the clock; nothing else depends on time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import Final, TypeAlias


class Outcome(StrEnum):
    """The eight verdicts."""

    PASS = "pass"
    NEAR_TIE = "near_tie"
    XFAIL = "xfail"
    SKIPPED = "skipped"
    FAIL = "fail"
    XPASS = "xpass"
    BLOCKED = "blocked"
    ERRORED = "errored"


class Level(StrEnum):
    """Two tracks: inference (I) and training (T); a later level presumes the earlier ones of its track."""

    I0 = "I0"
    I1 = "I1"
    I2 = "I2"
    I3 = "I3"
    T0 = "T0"
    T1 = "T1"
    T2 = "T2"
    T3 = "T3"

    @property
    def track(self) -> str:
        """`inference` or `training`."""
        return "inference" if self.value.startswith("I") else "training"

    @property
    def meaning(self) -> str:
        """What the level is about, in a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    Level.I0: "text",
    Level.I1: "forward pass",
    Level.I2: "cached decoding",
    Level.I3: "speculation",
    Level.T0: "data",
    Level.T1: "loss and gradient",
    Level.T2: "optimiser step",
    Level.T3: "run",
}


class Problem(StrEnum):
    """The ways in which two traces can disagree about one record."""

    MISSING = "missing"
    EXTRA = "extra"
    REORDERED = "reordered"
    SHAPE = "shape"
    NAN = "nan"
    VALUE = "value"


@dataclass(frozen=True)
class Difference:
    """One disagreement, aligned by record key.

    `record` reads like `STAGE index=3`; `field` and `index` are empty where the whole record is missing, extra or
    reordered. `ulp` is the distance in units in the last place of binary64, where both traces carry exact bits.
    """

    problem: Problem
    record: str
    field: str = ""
    index: int | None = None
    expected: str = ""
    found: str = ""
    ulp: int | None = None

    def __str__(self) -> str:
        place = self.record + (f", field {self.field}" if self.field else "")
        place += f"[{self.index}]" if self.index is not None else ""
        if self.problem in (Problem.MISSING, Problem.EXTRA, Problem.REORDERED):
            return f"{place}: {self.problem.value}" + (f" ({self.found})" if self.found else "")
        distance = (
            "" if self.ulp is None else f", {self.ulp} ULP apart" if self.ulp else ", although their bits are equal"
        )
        return f"{place}: {self.problem.value}, expected {self.expected}, found {self.found}{distance}"


@dataclass(frozen=True)
class Explanation:
    """Where a difference begins, and what it most likely is.

    Attributes:
        lines: at most six, for people.
        stage: a stage of the forward pass, or a part of a training step; empty where none could be told.
        index: of the first value there.
        expected, found: both values.
        ulp: their distance in the backend's format.
        origin: `added` there, or `inherited`.
        conventions: names of the seeded faults that give what was found, the likeliest first.
    """

    lines: tuple[str, ...]
    stage: str = ""
    index: tuple[int, ...] = ()
    expected: float | None = None
    found: float | None = None
    ulp: int | None = None
    origin: str = ""
    conventions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What one check found.

    `check` is the full id, `suite::check[case]`. `message` is one sentence; `differences` come first difference first.
    `reason` and `link` are filled by an expected-failure entry, `explanation` for the first failure of a kind. `met`
    says what was met on the way, and how often, such as (`rejected guesses`, 4).
    """

    check: str
    level: Level
    outcome: Outcome
    message: str
    differences: tuple[Difference, ...] = ()
    reason: str = ""
    link: str = ""
    seconds: float = 0.0
    explanation: Explanation | None = None
    met: tuple[tuple[str, int], ...] = ()

    @property
    def suite(self) -> str:
        """The part of the id before `::`."""
        return self.check.partition("::")[0]


@dataclass(frozen=True)
class Versions:
    """The five versions that every report carries, each with its own meaning."""

    grammar: str
    protocol: str
    arithmetic: str
    suites: Mapping[str, str]
    vectors: Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """All verdicts of one run, in the order in which the suites list their checks."""

    backend: str
    versions: Versions
    verdicts: tuple[Verdict, ...]
    required: Level | None = None
    notes: tuple[str, ...] = field(default=())

    def counts(self) -> dict[Outcome, int]:
        """How many verdicts there are of each outcome, zeros included."""
        found = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: found.get(outcome, 0) for outcome in Outcome}

    def required_but_skipped(self) -> tuple[Verdict, ...]:
        """The skipped verdicts at or below the required level of its track."""
        required = self.required
        if required is None:
            return ()
        return tuple(
            verdict
            for verdict in self.verdicts
            if verdict.outcome is Outcome.SKIPPED
            and verdict.level.track == required.track
            and verdict.level.value <= required.value
        )

    def exit_code(self) -> int:
        """2 if anything errored or nothing was judged; else 1 if anything failed; else 0."""
        counts = self.counts()
        judged = len(self.verdicts) - counts[Outcome.SKIPPED]
        if counts[Outcome.ERRORED] or judged == 0:
            return 2
        if counts[Outcome.FAIL] or counts[Outcome.XPASS] or counts[Outcome.BLOCKED] or self.required_but_skipped():
            return 1
        return 0


Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment; only differences mean anything."""

WALL: Final[Clock] = perf_counter
"""The clock on the wall."""
