"""Fields of many records as columns of numbers, so that a judge can look at a million records at once.

A column takes eight bytes a record. What a text holds beyond a number is kept as a hash, which differs from process to
process: two texts with equal hashes are taken for equal.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[Any]
"""64-bit integers, or objects where some number is so large that a sum of many might not fit."""

Hashes: TypeAlias = npt.NDArray[np.int64]

LARGE: Final = 1 << 36
ROWS_AT_ONCE: Final = 4096


class IntegerColumn:
    """A column of integers of any size, as it grows."""

    def __init__(self) -> None:
        self._small = array("q")
        self._large: list[int] | None = None

    def extend(self, numbers: list[int]) -> None:
        """Add the next numbers."""
        if self._large is None and numbers and max(max(numbers), -min(numbers)) < LARGE:
            self._small.extend(numbers)
            return
        if self._large is None:
            self._large = list(self._small)
        self._large.extend(numbers)

    def values(self) -> Integers:
        """Return all numbers."""
        if self._large is not None:
            return np.array(self._large, dtype=object)
        return np.frombuffer(self._small, np.int64)


def batches(rows: Iterable[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """Yield the rows some thousands at a time."""
    remaining = iter(rows)
    while batch := list(islice(remaining, ROWS_AT_ONCE)):
        yield batch


def length_of(text: str) -> int:
    """Return how many items a list has, as it is written: `[1, 2]` gives 2."""
    return text.count(", ") + 1 if text != "[]" else 0


def fitting(number: int, column: Integers) -> int:
    """Return a number that compares with a column as `number` does, and can be reckoned with it."""
    return number if column.dtype == object else max(-LARGE, min(number, LARGE))


def places_in(hashes: Hashes, wanted: Hashes) -> Hashes:
    """Return for each wanted hash its place among distinct ones; -1 where it is not among them."""
    if not len(hashes):
        return np.full(len(wanted), -1)
    order = np.argsort(hashes)
    at = np.minimum(np.searchsorted(hashes, wanted, sorter=order), len(hashes) - 1)
    return np.where(hashes[order[at]] == wanted, order[at], -1)
