"""The edges of a streaming session, beside what the library measured: eviction, 8 bits, snapshots, cuts, overflow.

What is done to a session stands in the name of a sequence of steps; a name that is not known here is reported as not
verified. A sequence that goes on from another one needs that one.

One kind of quantity, compared value by value: how many, how far off, and where first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_neural_api.net.cache import Eviction
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.verify.samples import EdgeStep, SessionEdgeSample
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.errors import CaiReferenceError


class Measure(StrEnum):
    """What an error is measured in."""

    ABSOLUTE = "absolute"
    OF_LAYER = "of the layer's largest"
    EQUAL = "equal"


@dataclass(frozen=True)
class SampleComparison:
    """What came of comparing one kind of quantity.

    Attributes:
        quantity: what was compared.
        source: the file that states what is expected.
        values: how many values were compared.
        largest: the largest error, infinite where values are missing; of values that have to be equal, how many differ.
        tolerance: the largest error that passes.
        measure: what both are measured in.
        first: the first place over the tolerance, in words; empty if there is none.
        left_out: what was not judged, and why; empty if everything was.
    """

    quantity: str
    source: str
    values: int
    largest: float
    tolerance: float
    measure: Measure
    first: str = ""
    left_out: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is over the tolerance."""
        return self.largest <= self.tolerance


class Tally:
    """Collects the comparisons of one kind of quantity."""

    def __init__(self, quantity: str, source: str, tolerance: float = 0.0, measure: Measure = Measure.EQUAL) -> None:
        self._quantity = quantity
        self._source = source
        self._tolerance = tolerance
        self._measure = measure
        self._values = 0
        self._largest = 0.0
        self._first = ""
        self.left_out = ""

    def numbers(
        self, expected: npt.ArrayLike, found: Array, place: Callable[[tuple[int, ...]], str], scale: float = 1.0
    ) -> None:
        """Compare numbers of one shape; `place` names an index, and errors are divided by `scale`."""
        wanted = np.asarray(expected, np.float64)
        if wanted.shape != found.shape:
            self.missing(f"{place(())}: expected {_shape(wanted.shape)}, found {_shape(found.shape)}")
            return
        self._values += wanted.size
        if not wanted.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(wanted - found) / scale
        errors = np.where(np.isnan(errors), np.inf, errors)
        over = np.argwhere(errors > self._tolerance)
        if self._measure is Measure.EQUAL:
            self._largest += float(len(over))
        else:
            self._largest = max(self._largest, float(np.max(errors)))
        # A single number has the empty index, so that the size says nothing.
        if len(over):
            index = tuple(int(axis) for axis in over[0])
            self._note(f"{place(index)}: expected {wanted[index]:.9g}, found {found[index]:.9g}")

    def equal(self, expected: object, found: object, place: str) -> None:
        """Compare two values that have to be equal."""
        self._values += 1
        if expected != found:
            self._largest += 1.0
            self._note(f"{place}: expected {expected}, found {found}")

    def tokens(self, expected: Sequence[int], found: Sequence[int], start: int, place: str) -> None:
        """Compare ids from position `start` on; those before it are the prompt."""
        for position in range(start, max(len(expected), len(found))):
            wanted, given = (
                ids[position] if position < len(ids) else "the end of the sequence" for ids in (expected, found)
            )
            self.equal(wanted, given, f"{place}, position {position}")

    def missing(self, problem: str) -> None:
        """Note that something could not be compared at all."""
        self._largest = math.inf
        self._note(problem)

    def result(self) -> SampleComparison:
        """Return what came of it."""
        return SampleComparison(
            self._quantity,
            self._source,
            self._values,
            self._largest,
            self._tolerance,
            self._measure,
            self._first,
            self.left_out,
        )

    def _note(self, text: str) -> None:
        self._first = self._first or text


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one value"


EVICTION: Final = re.compile(r"evict_sink([0-9]{1,6})_window([0-9]{1,6})")
CUT: Final = re.compile(r"after_truncate_to_([0-9]{1,6})")
OVERFLOW: Final = re.compile(r"overflow_maxcache([0-9]{1,6})")


@dataclass(frozen=True)
class EdgeChecks:
    """What came of the edges, and which sequences were not looked at."""

    comparisons: tuple[SampleComparison, ...]
    unknown: tuple[str, ...]


def edge_checks(
    net: Net, sample: SessionEdgeSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> EdgeChecks:
    """Repeat every known sequence of steps, and compare rows and lengths of the caches."""
    replay = _Replay(net, sample, source, arithmetic, tolerance)
    comparisons: list[SampleComparison] = []
    known: set[str] = set()
    for name in sample.sequences:
        found = replay.sequence(name)
        if found:
            comparisons.extend(found)
            known.add(name)
    unknown = [name for name in sample.sequences if name not in known and name not in replay.used]
    return EdgeChecks(tuple(comparisons), tuple(unknown))


class _Replay:
    """Sessions of one net, and the sequences that are fed to them."""

    def __init__(
        self, net: Net, sample: SessionEdgeSample, source: str, arithmetic: Arithmetic, tolerance: float
    ) -> None:
        self.used: set[str] = set()
        self._net = net
        self._sequences = sample.sequences
        self._source = source
        self._arithmetic = arithmetic
        self._tolerance = tolerance
        self._steps = max((step.position + 1 for steps in sample.sequences.values() for step in steps), default=1)

    def sequence(self, name: str) -> tuple[SampleComparison, ...]:
        """Repeat what a name stands for; nothing where it is not known, or is a part of another sequence."""
        if name == "plain":
            return self._judged([name], self._session)
        if name == "int8_kv":
            return self._judged([name], self._quantised)
        if found := EVICTION.fullmatch(name):
            sinks, recent = map(int, found.groups())
            return self._judged([name], lambda: self._evicting(Eviction(sinks, recent)))
        if found := OVERFLOW.fullmatch(name):
            capacity = int(found[1])
            return self._judged([name], lambda: self._session(capacity, stale_overflow=True))
        parts = ["pre_snapshot", "after_snapshot_first", "after_restore"]
        if name == "pre_snapshot" and self._sequences.keys() >= set(parts):
            return self._judged(parts, self._session, self._snapshot_between)
        if (found := CUT.fullmatch(name)) and "pre_truncate" in self._sequences:
            length = int(found[1])
            return self._judged(["pre_truncate", name], self._session, lambda session, part: session.truncate(length))
        return ()

    def _judged(
        self,
        names: Sequence[str],
        make: Callable[[], NetSession],
        between: Callable[[NetSession, int], None] = lambda session, part: None,
    ) -> tuple[SampleComparison, ...]:
        """Feed sequences to one session, one after the other; `between` is done before each but the first."""
        self.used |= set(names)
        title = names[-1] if len(names) == 2 else names[0].removeprefix("pre_")
        rows = Tally(f"session rows, {title}", self._source, self._tolerance, Measure.ABSOLUTE)
        lengths = Tally(f"cache lengths, {title}", self._source)
        try:
            session = make()
            for part, name in enumerate(names):
                if part:
                    between(session, part)
                for number, step in enumerate(self._sequences[name]):
                    self._step(session, step, f"{name}, step {number}", rows, lengths)
        except CaiReferenceError as error:
            rows.missing(f"{title}: {error}")
        return rows.result(), lengths.result()

    def _step(self, session: NetSession, step: EdgeStep, place: str, rows: Tally, lengths: Tally) -> None:
        found = session.step([step.token], step.position)[-1][0]
        rows.numbers(step.row, found, lambda index: f"{place}, channel {index[0]}" if index else place)
        for cache, length in enumerate(session.lengths):
            lengths.equal(step.cache_length, length, f"{place}, cache {cache}")

    def _session(self, capacity: int | None = None, *, stale_overflow: bool = False) -> NetSession:
        room = max(self._net.context + 1, self._steps) if capacity is None else capacity
        return NetSession(self._net, self._arithmetic, room, stale_overflow=stale_overflow)

    def _quantised(self) -> NetSession:
        session = self._session()
        session.quantise()
        return session

    def _evicting(self, eviction: Eviction) -> NetSession:
        session = self._session()
        session.evict(eviction)
        return session

    def _snapshot_between(self, session: NetSession, part: int) -> None:
        """Take a snapshot before the second sequence, and return to it before the third."""
        if part == 1:
            self._snapshot = session.snapshot()
        else:
            session.restore(self._snapshot)
