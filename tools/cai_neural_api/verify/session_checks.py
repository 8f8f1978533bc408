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
from cai_neural_api.verify.samples import SessionEdgeSample
from cai_reference.arithmetic import Arithmetic
from cai_reference.errors import CaiReferenceError


class Measure(StrEnum):
    """What an error is measured in."""

    ABSOLUTE = "absolute"
    OF_LAYER = "of the layer's largest"
    EQUAL = "equal"


@dataclass
class SampleComparison:
    """What comes of comparing one kind of quantity, value by value.

    Attributes:
        quantity: what is compared.
        source: the file that states what is expected.
        tolerance: the largest error that passes.
        measure: what errors are measured in.
        values: how many values were compared.
        largest: the largest error, infinite where values are missing; of values that have to be equal, how many differ.
        first: the first place over the tolerance, in words; empty if there is none.
        left_out: what was not judged, and why; empty if everything was.
    """

    quantity: str
    source: str
    tolerance: float = 0.0
    measure: Measure = Measure.EQUAL
    values: int = 0
    largest: float = 0.0
    first: str = ""
    left_out: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is over the tolerance."""
        return self.largest <= self.tolerance

    def numbers(
        self, expected: npt.ArrayLike, found: npt.ArrayLike, place: str, of: str = "", scale: float = 1.0
    ) -> None:
        """Compare a number, or several of one shape: `of` says what an index counts. Errors are divided by `scale`."""
        wanted, given = np.asarray(expected, np.float64), np.asarray(found, np.float64)
        if wanted.shape != given.shape:
            self.missing(f"{place}: expected {_shape(wanted.shape)}, found {_shape(given.shape)}")
            return
        self.values += wanted.size
        if not wanted.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(wanted - given) / scale
        errors = np.where(np.isnan(errors), np.inf, errors)
        over = np.argwhere(errors > self.tolerance)
        if self.measure is Measure.EQUAL:
            self.largest += float(len(over))
        else:
            self.largest = max(self.largest, float(np.max(errors)))
        # A single number has the empty index, so that the size says nothing.
        if len(over):
            index = tuple(int(axis) for axis in over[0])
            where = f"{place}, {of} {', '.join(map(str, index))}" if index else place
            self._note(f"{where}: expected {wanted[index]:.9g}, found {given[index]:.9g}")

    def equal(self, expected: object, found: object, place: str) -> None:
        """Compare two values that have to be equal."""
        self.values += 1
        if expected != found:
            self.largest += 1.0
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
        self.largest = math.inf
        self._note(problem)

    def _note(self, text: str) -> None:
        self.first = self.first or text


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one value"


EVICTION: Final = re.compile(r"evict_sink([0-9]{1,6})_window([0-9]{1,6})")
CUT: Final = re.compile(r"after_truncate_to_([0-9]{1,6})")
OVERFLOW: Final = re.compile(r"overflow_maxcache([0-9]{1,6})")


def edge_checks(
    net: Net, sample: SessionEdgeSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> tuple[list[SampleComparison], list[str]]:
    """Repeat every known sequence of steps, and compare rows and lengths of the caches.

    Returns what came of it, and which sequences were not looked at.
    """
    replay = _Replay(net, sample, source, arithmetic, tolerance)
    comparisons = [each for name in sample.sequences for each in replay.sequence(name)]
    return comparisons, [name for name in sample.sequences if name not in replay.used]


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
            return self._judged([name], lambda: self._session(eight_bits=True))
        if found := EVICTION.fullmatch(name):
            sinks, recent = map(int, found.groups())
            return self._judged([name], lambda: self._session(eviction=Eviction(sinks, recent)))
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
        rows = SampleComparison(f"session rows, {title}", self._source, self._tolerance, Measure.ABSOLUTE)
        lengths = SampleComparison(f"cache lengths, {title}", self._source)
        try:
            session = make()
            for part, name in enumerate(names):
                if part:
                    between(session, part)
                for number, step in enumerate(self._sequences[name]):
                    place = f"{name}, step {number}"
                    found = session.step([step.token], step.position)[-1][0]
                    rows.numbers(step.row, found, place, "channel")
                    for cache, length in enumerate(session.lengths):
                        lengths.equal(step.cache_length, length, f"{place}, cache {cache}")
        except CaiReferenceError as error:
            rows.missing(f"{title}: {error}")
        return rows, lengths

    def _session(
        self,
        capacity: int | None = None,
        *,
        stale_overflow: bool = False,
        eight_bits: bool = False,
        eviction: Eviction | None = None,
    ) -> NetSession:
        room = max(self._net.context + 1, self._steps) if capacity is None else capacity
        session = NetSession(self._net, self._arithmetic, room, stale_overflow=stale_overflow)
        session.quantise(eight_bits)
        session.evict(eviction)
        return session

    def _snapshot_between(self, session: NetSession, part: int) -> None:
        """Take a snapshot before the second sequence, and return to it before the third."""
        if part == 1:
            self._snapshot = session.snapshot()
        else:
            session.restore(self._snapshot)
