"""The samplers of the CAI NEURAL API as they are, under names that usually mean something else.

Its top-k and top-p look at probabilities only to decide which tokens stay; among those, each is as likely as any other.
Its top-p leaves out the token that crosses the bound, so that a bound of 1, which no sum of probabilities crosses,
leaves the largest token alone. Scores and sums are float32. `cai_reference.legacy.sampling.standard` has what the names
usually mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_reference.arithmetic import Array
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.sampling.errors import NothingProbable, TopKBeyondRow
from cai_reference.legacy.sampling.ordering import descending
from cai_reference.legacy.sampling.sampler import check_min_p, check_row, check_top_k, check_top_p

Scores: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class LibraryGreedy:
    """The largest probability; the first of equal ones. Draws nothing."""

    def choose(self, row: Array) -> int:
        """Return the token of the largest float32.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        return int(np.argmax(_scores(row)))


@dataclass(frozen=True)
class LibraryTopK:
    """One of the k largest, each as likely as the others.

    Attributes:
        k: at least 1, at most the number of tokens.
        generator: gives one draw a token.

    Raises:
        TopKTooSmall: k is below 1.
    """

    k: int
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_top_k(self.k)

    def choose(self, row: Array) -> int:
        """Return one of the k largest.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
            TopKBeyondRow: it has fewer than k; the library would read past its end.
        """
        scores = _scores(row)
        if self.k > len(scores):
            raise TopKBeyondRow(self.k, len(scores))
        return _descending(scores)[self.generator.below(self.k)]


@dataclass(frozen=True)
class LibraryTopP:
    """One of the largest that together do not yet exceed p, each as likely as the others.

    The token whose probability takes the sum above p is not among them. If that is the largest token itself, or if the
    sum never exceeds p, the largest token is chosen without a draw; so it is with p = 1, unless rounding takes the sum
    above 1.

    Attributes:
        p: above 0, at most 1; rounded to float32.
        generator: gives one draw a token, or none.

    Raises:
        TopPOutOfRange: p is outside of (0, 1].
    """

    p: float
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_top_p(self.p)

    def choose(self, row: Array) -> int:
        """Return one of the largest.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        scores, bound, total = _scores(row), np.float32(self.p), np.float32(0.0)
        order, crossing = _descending(scores), 0
        for place, token in enumerate(order):
            total += scores[token]
            if total > bound:
                crossing = place
                break
        return order[self.generator.below(crossing) if crossing else 0]


@dataclass(frozen=True)
class LibraryMinP:
    """One of those with at least q times the largest probability, drawn by probability.

    Where the draw falls on the border between two tokens exactly was not measured; here it belongs to the later one.

    Attributes:
        q: above 0, at most 1; rounded to float32.
        generator: gives one draw a token.

    Raises:
        MinPOutOfRange: q is outside of (0, 1].
    """

    q: float
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_min_p(self.q)

    def choose(self, row: Array) -> int:
        """Return one of those that are probable enough.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        scores = _scores(row)
        least = np.float32(self.q) * scores.max()
        kept = [token for token in _descending(scores) if scores[token] >= least]
        sums = np.zeros(len(kept) + 1, np.float32)
        for place, token in enumerate(kept):
            sums[place + 1] = sums[place] + scores[token]
        draw = np.float32(self.generator.unit() * float(sums[-1]))
        # Rounding to float32 may take the draw up to the sum itself; then it is the last token's.
        return kept[min(int(np.count_nonzero(sums[1:] <= draw)), len(kept) - 1)]


def _scores(row: Array) -> Scores:
    """Return the row as float32, in which it must still be one of probabilities."""
    check_row(row)
    scores = row.astype(np.float32)
    if not scores.any():
        raise NothingProbable(len(scores))
    return scores


def _descending(scores: Scores) -> list[int]:
    return descending(scores.tolist())
