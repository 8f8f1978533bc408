"""Pairs of neighbouring symbols: which are counted, their numbers, their alphabetical order, and how often each occurs.

A word is held as its symbols with the delimiter, byte 30, between them; a pair is written in the same way. Source: CAI
NEURAL API, tokenizer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]

DELIMITER: Final = b"\x1e"
COUNTED: Final = frozenset(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz")
APOSTROPHE: Final = b"'"


def is_counted(symbol: bytes) -> bool:
    """Return whether a symbol may stand in a counted pair: it begins with a–z, or is a bare apostrophe.

    A longer symbol that begins with an apostrophe, such as "'t", is never counted again.
    """
    return symbol[:1] in COUNTED or symbol == APOSTROPHE


def pairs_in(word: bytes) -> list[bytes]:
    """Return the pairs of a word that are counted, from left to right.

    Arguments:
        word: symbols with the delimiter between them.
    """
    symbols = word.split(DELIMITER)
    return [left + DELIMITER + right for left, right in pairwise(symbols) if is_counted(left) and is_counted(right)]


class PairTable:
    """Every pair ever seen, by number, and how often it occurs in what was scanned.

    Attributes:
        texts: the pairs by number.
        counts: how often each occurs, by number; a view into an array, so that both single counts and all of them are
            at hand. Adding a pair may replace it.
    """

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._alphabet: list[bytes] = []
        self._order = np.empty(0, np.int64)
        self._counts = np.zeros(1024, np.int64)
        self.counts: memoryview[int] = self._counts.data

    def number(self, pair: bytes) -> int:
        """Return the number of a pair, a new one if it was never seen."""
        known = self._numbers.get(pair)
        return self._add(pair) if known is None else known

    def occurring(self) -> tuple[Integers, Integers]:
        """Return the numbers and the counts of the pairs that occur, in alphabetical order of the pairs."""
        counts = self._counts[self._order]
        places = np.flatnonzero(counts)
        return self._order[places], counts[places]

    def _add(self, pair: bytes) -> int:
        number = len(self.texts)
        if number == len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self.counts = self._counts.data
        self.texts.append(pair)
        self._numbers[pair] = number
        place = _place(self._alphabet, pair)
        self._alphabet.insert(place, pair)
        self._order = np.insert(self._order, place, number)
        return number


def _place(ascending: list[bytes], item: bytes) -> int:
    """Return where an item belongs in a sorted list that does not hold it."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low
