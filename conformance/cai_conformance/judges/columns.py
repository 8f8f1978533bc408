"""Fields of many records as columns of numbers, so that a judge can look at a million records at once.

A column takes four to eight bytes a record. What a text holds beyond a number is kept as a hash, which differs from
process to process: two texts with equal hashes are taken for equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[Any]
"""Integers of 32 or 64 bits, or objects where some number is so large that a sum of many might not fit."""

Hashes: TypeAlias = npt.NDArray[np.int64]

SMALL: Final = 1 << 30
LARGE: Final = 1 << 36


class HashColumn:
    """A column of the hashes of a known number of texts, as it is filled."""

    def __init__(self, count: int) -> None:
        self.values: Hashes = np.zeros(count, np.int64)
        self._filled = 0

    def extend(self, texts: Sequence[Hashable]) -> None:
        """Add the hashes of the next texts, or tuples of texts."""
        stop = self._filled + len(texts)
        self.values[self._filled : stop] = np.fromiter(map(hash, texts), np.int64, len(texts))
        self._filled = stop


class IntegerColumn:
    """A column of a known number of integers of any size, as it is filled.

    They take four bytes each while all are small, then eight, and then what a Python integer takes.
    """

    def __init__(self, count: int) -> None:
        self.values: Integers = np.zeros(count, np.int32)
        self._limit = SMALL
        self._filled = 0

    def extend(self, numbers: Sequence[int]) -> None:
        """Add the next numbers."""
        largest = max(max(numbers), -min(numbers)) if numbers else 0
        if largest >= self._limit and self._limit == SMALL:
            self.values, self._limit = self.values.astype(np.int64), LARGE
        if largest >= self._limit:
            self.values = self.values.astype(object)
        stop = self._filled + len(numbers)
        self.values[self._filled : stop] = numbers
        self._filled = stop


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


def narrow(column: Integers) -> Integers:
    """Return a column in four bytes a number, where all of them are small."""
    small = len(column) > 0 and column.dtype == np.int64 and column.min() > -SMALL and column.max() < SMALL
    return column.astype(np.int32) if small else column


def places_in(values: Integers, wanted: Integers) -> Integers:
    """Return for each wanted value its place among distinct ones; -1 where it is not among them."""
    if not len(values):
        return np.full(len(wanted), -1, np.int32)
    order = np.argsort(values).astype(np.int32)
    at = np.searchsorted(values, wanted, sorter=order).astype(np.int32)
    np.minimum(at, len(values) - 1, out=at)
    found = order[at]
    found[np.asarray(values[found] != wanted, bool)] = -1
    return found
