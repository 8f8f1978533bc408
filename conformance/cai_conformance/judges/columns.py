"""Fields of many records as columns of numbers, so that a judge can look at a million records at once.

A column takes four to eight bytes a record. What a text holds beyond a number is kept as a hash, which differs from
process to process: two texts with equal hashes are taken for equal.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[Any]
"""Integers of 32 or 64 bits, or objects where some number is so large that a sum of many might not fit."""

Hashes: TypeAlias = npt.NDArray[np.int64]

SMALL: Final = 1 << 30
LARGE: Final = 1 << 36


class IntegerColumn:
    """A column of integers of any size, as it grows: of four bytes each while all are small, then of eight."""

    def __init__(self) -> None:
        self._numbers: array[int] | list[int] = array("i")
        self._limit = SMALL

    def extend(self, numbers: list[int]) -> None:
        """Add the next numbers."""
        largest = max(max(numbers), -min(numbers)) if numbers else 0
        if largest >= self._limit and self._limit == SMALL:
            self._numbers, self._limit = array("q", self._numbers), LARGE
        if largest >= self._limit and isinstance(self._numbers, array):
            self._numbers = list(self._numbers)
        self._numbers.extend(numbers)

    def values(self) -> Integers:
        """Return all numbers."""
        if isinstance(self._numbers, list):
            return np.array(self._numbers, dtype=object)
        return np.frombuffer(self._numbers, np.int32 if self._limit == SMALL else np.int64)


def integers_of(text: str) -> list[int]:
    """Return the items of a list of integers that is known to be one."""
    return [int(item) for item in text[1:-1].split(", ")] if text != "[]" else []


def length_of(text: str) -> int:
    """Return how many items a list has, as it is written: `[1, 2]` gives 2."""
    return text.count(", ") + 1 if text != "[]" else 0


def fitting(number: int, column: Integers) -> int:
    """Return a number that compares with a column as `number` does, and can be reckoned with it."""
    limit = LARGE if column.dtype == np.int64 else SMALL
    return number if column.dtype == object else max(-limit, min(number, limit))


def places_in(values: Integers, wanted: Integers) -> Integers:
    """Return for each wanted value its place among distinct ones; -1 where it is not among them."""
    if not len(values):
        return np.full(len(wanted), -1, np.int32)
    order = np.argsort(values).astype(np.int32)
    at = np.minimum(np.searchsorted(values, wanted, sorter=order), len(values) - 1)
    found = order[at]
    found[np.asarray(values[found] != wanted, bool)] = -1
    return found
