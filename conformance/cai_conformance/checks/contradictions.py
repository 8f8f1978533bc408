"""Many contradictions as one finding: the first one is told, the others are counted and not kept.

Fields of many records as columns of numbers, so that a judge can look at a million records at once.

A column takes four to eight bytes a record. What a text holds beyond a number is kept as a hash, which differs from
process to process: two texts with equal hashes are taken for equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cai_conformance.checks.finding import Finding
from cai_conformance.trace.records import Trace, shortened

_DOUBLE = Struct(">d")

Problem: TypeAlias = str | Callable[[], str]
"""A sentence, or what makes it, where that takes long and is needed of the first one only."""


def finding_of(problems: Iterable[Problem], met: str) -> Finding:
    """Return that there are problems, or, without any, what was met."""
    remaining = iter(problems)
    first = next(remaining, None)
    if first is None:
        return Finding.passed(met)
    rest = sum(1 for _ in remaining)
    return Finding.failed((first if isinstance(first, str) else first()) + (f" (and {rest} more)" if rest else ""))


def label_of(kind: str, **key: str) -> str:
    """Return the label of a record of which only the key is known."""
    return " ".join([kind, *(shortened(f"{name}={text}") for name, text in key.items())])


def shown_numbers(numbers: list[int]) -> str:
    """Return a list of numbers for a message, the first hundred of very many."""
    return str(numbers) if len(numbers) <= 1000 else f"{str(numbers[:100])[:-1]}, … and {len(numbers) - 100} more]"


def losses_with_bits(trace: Trace) -> Iterator[tuple[tuple[str, str, str], tuple[str, str] | None]]:
    """Yield step, `train` and `validation` of each LOSS record, and the bits of both from the BITS record of the step.

    Absent bits are an empty text; None stands for no BITS record. Both kinds ascend by their step, so that one walk
    over each of them is enough.
    """
    all_bits = trace.rows("BITS", "step", "train", "validation")
    current = next(all_bits, None)
    for step, train, validation in trace.rows("LOSS", "step", "train", "validation"):
        while current is not None and int(current[0]) < int(step):
            current = next(all_bits, None)
        met = current is not None and current[0] == step
        yield (step, train, validation), (current[1], current[2]) if met and current is not None else None


def first_steps(trace: Trace, kind: str, count: int = 64) -> str:
    """Return the steps of the records of a kind for a message, shortened."""
    return shortened(str([int(step) for (step,) in islice(trace.rows(kind, "step"), count)]))


def prints_as(bits: str, text: str) -> bool:
    """Return whether the double of sixteen digits, which are known to be that, prints as a text, its sign included."""
    (value,) = _DOUBLE.unpack(bytes.fromhex(bits))
    return f"{value:.6f}" == text


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
