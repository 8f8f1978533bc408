"""Pairs of neighbouring symbols: which are counted, their numbers, their alphabetical order, and how often each occurs.

A word is held as its symbols with the delimiter, byte 30, between them; a pair is written in the same way. Source: CAI
NEURAL API, tokenizer.

Counting pairs up to the point at which one of them is frequent enough, again after every merge.

The library scans the text from its start until a pair occurs for the 33rd time, merges, and scans again. Here what was
scanned stays counted: a merge corrects the counts of the few distinct words that it changes, and the next scan goes on
where the last one stopped, or goes back where a merge has made a pair frequent earlier. The counts at the stop are
those of a scan from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
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


FREQUENT: Final = 33
"""A scan stops as soon as a pair occurs this often."""


class PairScan:
    """The words of a text, their pairs, and the counts of a scan.

    Arguments:
        words: in the order of the text, with repetitions; single bytes are the first symbols.
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        self.table = PairTable()
        self._words: list[bytes] = []
        self._pairs: list[list[int]] = []
        self._text: list[int] = []
        self._scanned = 0
        # Of each distinct word, how often it was scanned in full.
        self._times: list[int] = []
        # A pair can only occur in words that hold the last byte of its left symbol before the first of its right one.
        self._words_with: dict[bytes, list[int]] = {}
        known: dict[bytes, int] = {}
        for word in words:
            number = known.get(word)
            if number is None:
                number = known[word] = self._add(word)
            if number >= 0:
                self._text.append(number)

    def _add(self, word: bytes) -> int:
        """Return the number of a distinct word, or -1 if no pair of it will ever be counted."""
        symbols = DELIMITER.join(bytes([byte]) for byte in word)
        pairs = self._numbers(symbols)
        if not pairs:
            return -1
        number = len(self._words)
        self._words.append(symbols)
        self._pairs.append(pairs)
        self._times.append(0)
        for letters in {word[place : place + 2] for place in range(len(word) - 1)}:
            self._words_with.setdefault(letters, []).append(number)
        return number

    def _numbers(self, symbols: bytes) -> list[int]:
        return [self.table.number(pair) for pair in pairs_in(symbols)]

    def advance(self) -> tuple[Integers, Integers]:
        """Scan on to the stop; return the numbers of the pairs up to there, in alphabetical order, and their counts."""
        counts, text, pairs = self.table.counts, self._text, self._pairs
        stopped: list[int] = []
        while self._scanned < len(text) and not stopped:
            word = text[self._scanned]
            for place, pair in enumerate(pairs[word], 1):
                counts[pair] += 1
                if counts[pair] == FREQUENT:
                    stopped = pairs[word][:place]
                    break
            else:
                self._times[word] += 1
                self._scanned += 1
        occurring = self.table.occurring()
        # The word in which the scan stopped counts as not scanned.
        for pair in stopped:
            counts[pair] -= 1
        return occurring

    def merge(self, pair: bytes) -> bytes:
        """Merge a pair in every word; return the symbol that it becomes.

        What is replaced is text: a symbol that only ends with the left part, or begins with the right one, merges, too.
        """
        left, _, right = pair.partition(DELIMITER)
        merged = left + right
        touched: set[int] = set()
        for number in self._words_with[left[-1:] + right[:1]]:
            word = self._words[number]
            if pair in word:
                touched |= self._rewrite(number, word.replace(pair, merged))
        self._go_back({other for other in touched if self.table.counts[other] >= FREQUENT})
        return merged

    def _rewrite(self, number: int, word: bytes) -> set[int]:
        """Change a distinct word and the counts of its pairs; return the pairs that it has now."""
        before, after = self._pairs[number], self._numbers(word)
        counts, times = self.table.counts, self._times[number]
        for pair in before:
            counts[pair] -= times
        for pair in after:
            counts[pair] += times
        self._words[number], self._pairs[number] = word, after
        return set(after)

    def _go_back(self, frequent: set[int]) -> None:
        """Take words back, from the last scanned on, until none of these pairs is frequent."""
        counts = self.table.counts
        while frequent:
            self._scanned -= 1
            word = self._text[self._scanned]
            self._times[word] -= 1
            for pair in self._pairs[word]:
                counts[pair] -= 1
                if counts[pair] < FREQUENT:
                    frequent.discard(pair)
