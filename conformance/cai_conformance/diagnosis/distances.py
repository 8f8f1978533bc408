"""How far two arrays are apart: the first place, both values, the distance in units in the last place, how many."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.engine import PRECISIONS
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import ulp_distance

NARROW: Final = {"float32": (">f", ">i", 0), "bfloat16": (">f", ">i", 16), "float16": (">e", ">h", 0)}
"""How a number is packed, how its bits are read, and how many of them are left out."""

NO_DISTANCE: Final = 1 << 64
"""The distance between a number and what is none, as in binary64."""

TELLING: Final = 10**6
"""A distance beyond this many units says no more than the two values do."""


@dataclass(frozen=True)
class Disagreement:
    """What comparing two arrays of one shape has found.

    Attributes:
        index: of the first value beyond what is allowed, row-major; of the largest difference where none is.
        expected, found: the two values there.
        largest: the largest absolute difference of all; infinite where only one of two values is a number.
        allowed: up to which difference values count as equal.
        beyond: how many values differ by more.
        size: how many values there are.
        ulp: the distance of the two values in binary64.
        precision, narrow_ulp: the format of the backend, and the distance there.
    """

    index: tuple[int, ...]
    expected: float
    found: float
    largest: float
    allowed: float
    beyond: int
    size: int
    ulp: int
    precision: str
    narrow_ulp: int

    @property
    def agrees(self) -> bool:
        """Whether no value is beyond what is allowed."""
        return self.beyond == 0

    def __str__(self) -> str:
        place = "".join(f"[{number}]" for number in self.index)
        text = f"{place} expected {self.expected:.9g}, found {self.found:.9g}"
        unit = "ULP" if self.precision == PRECISIONS[0] else f"ULP of {self.precision}"
        distance = f", {self.narrow_ulp} {unit} apart" if self.narrow_ulp <= TELLING else ""
        return f"{text}{distance} ({self.beyond} of {self.size} values differ, by at most {self.largest:.3g})"


def measured(expected: Array, found: Array, allowed: float, precision: str = "float64") -> Disagreement:
    """Compare two arrays of one shape that hold at least one value.

    Args:
        expected: the reference's.
        found: the backend's.
        allowed: up to which absolute difference values count as equal.
        precision: one of `PRECISIONS`, the format in which the second distance is counted.
    """
    gaps = absolute_gaps(expected, found)
    beyond = gaps > allowed
    count = int(np.count_nonzero(beyond))
    place = int(np.argmax(beyond)) if count else int(np.argmax(gaps))
    one, other = float(expected.flat[place]), float(found.flat[place])
    return Disagreement(
        tuple(int(number) for number in np.unravel_index(place, expected.shape)),
        one,
        other,
        float(np.max(gaps)),
        allowed,
        count,
        expected.size,
        ulp_distance(one, other),
        precision,
        ulp_between(one, other, precision),
    )


def absolute_gaps(expected: Array, found: Array) -> Array:
    """Return absolute differences: 0 for equal infinities and for two NaN, infinite for one NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(expected - found)
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    result: Array = np.where(same, 0.0, np.where(np.isnan(gaps), np.inf, gaps))
    return result


def scale_of(*arrays: Array) -> float:
    """Return the largest finite absolute value, at least 1: what a floor is multiplied by."""
    return max(1.0, magnitude_of(*arrays))


def magnitude_of(*arrays: Array) -> float:
    """Return the largest finite absolute value; 0 of nothing."""
    return max((float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0)) for array in arrays), default=0.0)


def ulp_between(a: float, b: float, precision: str) -> int:
    """Return how many numbers of a format lie between two values, rounded to it, counting the second one.

    Raises:
        KeyError: there is no such format.
    """
    if precision == PRECISIONS[0]:
        return ulp_distance(a, b)
    if math.isnan(a) or math.isnan(b):
        return 0 if math.isnan(a) and math.isnan(b) else NO_DISTANCE
    return abs(_ordered(a, precision) - _ordered(b, precision))


def _ordered(value: float, precision: str) -> int:
    """Number the values of a format in their order, both zeros as 0."""
    number, integer, dropped = NARROW[precision]
    pattern: int = struct.unpack(integer, struct.pack(number, _within(value, number)))[0]
    bits = 8 * struct.calcsize(integer)
    magnitude = pattern & ((1 << (bits - 1)) - 1)
    if dropped:
        half = 1 << (dropped - 1)
        magnitude = (magnitude + half - 1 + ((magnitude >> dropped) & 1)) >> dropped
    return magnitude if pattern >= 0 else -magnitude


def _within(value: float, number: str) -> float:
    """Return infinity for what a format cannot hold, which `struct` would refuse."""
    try:
        struct.pack(number, value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value
