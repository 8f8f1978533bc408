"""One kind of quantity, compared value by value: how many, how far off, and where first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Array


class Measure(StrEnum):
    """What an error is measured in."""

    ABSOLUTE = "absolute"
    OF_LAYER = "of the layer's largest"
    EQUAL = "equal"


@dataclass(frozen=True)
class Comparison:
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

    def result(self) -> Comparison:
        """Return what came of it."""
        return Comparison(
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
