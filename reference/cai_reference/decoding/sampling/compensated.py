"""Compensated summation (Kahan, "Further remarks on reducing truncation errors", 1965).

What a rounded addition loses is carried along and taken off the next term. The error of a sum of n non-negative terms
is at most about 2 units of roundoff, however large n is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def compensated_sums(values: Iterable[float]) -> Iterator[float]:
    """Yield the running sum after each value, starting from +0.0."""
    total = lost = 0.0
    for value in values:
        addend = value - lost
        grown = total + addend
        lost = (grown - total) - addend
        total = grown
        yield total


def compensated_sum(values: Iterable[float]) -> float:
    """Return the last running sum; +0.0 for no values."""
    total = 0.0
    for running in compensated_sums(values):
        total = running
    return total
