"""Byte-pair training: learn merges from raw bytes.

Training tokens are bytes 0…255 and merges 256 + rank. Every round counts all adjacent pairs anew, each document
alone, and joins the most frequent pair, the numerically smallest on a tie. There is no pre-tokenisation (a merge may
hold spaces) and no minimum count (Sennrich, Haddow and Birch, 2016, on bytes; course, chapter 3).

    train([b"aaa"], 1)  →  (Merge(left=97, right=97, count=2, replacements=1),)
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cai_reference.text.errors import TextError

BYTES: Final = 256
MAXIMUM_MERGES: Final = 2**32 - BYTES

Pair = tuple[int, int]


@dataclass(frozen=True)
class Merge:
    """One learned rule: the pair in training tokens, how often it was counted, how often it was replaced.

    Counting sees overlapping occurrences, replacing does not: in `aaa` the pair (a, a) counts 2 and is replaced once.
    """

    left: int
    right: int
    count: int
    replacements: int

    @property
    def pair(self) -> Pair:
        """The two training tokens that are joined."""
        return self.left, self.right


def train(documents: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
    """Learn up to `requested` merges; fewer where no pair is left.

    Raises:
        TextError (negative-merges): `requested` is below 0.
        TextError (too-many-merges): the last id would not fit into 32 bits.
    """
    if requested < 0:
        raise TextError("negative-merges", requested=requested)
    if requested > MAXIMUM_MERGES:
        raise TextError("too-many-merges", requested=requested, limit=MAXIMUM_MERGES)
    sequences = [list(document) for document in documents]
    merges: list[Merge] = []
    while len(merges) < requested:
        counts = count_pairs(sequences)
        if not counts:
            break
        pair = most_frequent(counts)
        token = BYTES + len(merges)
        joined = [replace(sequence, pair, token) for sequence in sequences]
        replacements = sum(map(len, sequences)) - sum(map(len, joined))
        merges.append(Merge(*pair, counts[pair], replacements))
        sequences = joined
    return tuple(merges)


def count_pairs(sequences: Sequence[Sequence[int]]) -> Counter[Pair]:
    """Count adjacent pairs, overlapping ones included, within each sequence and never across two."""
    counts: Counter[Pair] = Counter()
    for sequence in sequences:
        counts.update(itertools.pairwise(sequence))
    return counts


def most_frequent(counts: Counter[Pair]) -> Pair:
    """Return the pair of largest count; of several, the numerically smallest."""
    return min(counts, key=lambda pair: (-counts[pair], pair))


def replace(sequence: Sequence[int], pair: Pair, token: int) -> list[int]:
    """Replace a pair from left to right without overlap.

    replace([97, 97, 97], (97, 97), 256)  →  [256, 97]
    """
    left, right = pair
    result: list[int] = []
    place, last = 0, len(sequence) - 1
    while place <= last:
        if sequence[place] == left and place < last and sequence[place + 1] == right:
            result.append(token)
            place += 2
        else:
            result.append(sequence[place])
            place += 1
    return result
