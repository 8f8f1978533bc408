"""Choosing a token from a row of probabilities, once as the CAI NEURAL API does it and once as everybody else does.

The two go by the same names and differ:

| | `library`: what that library does | `standard`: what the names usually mean |
|---|---|---|
| top-k | each of the k largest is as likely as the others | drawn by probability |
| top-p | those before the one that crosses p, each as likely | those up to the one that crosses p, by probability |
| top-p with p = 1 | always the largest, without a draw | any token |
| min-p | by probability, in the order of an unstable sort | by probability, in the order of ids |
| numbers | float32 | float64 |
| draws | 32 bits of the Mersenne Twister | 53 bits of SplitMix64 |

Both are `Sampler`s. The names of the classes say which is meant: `LibraryTopK`, `StandardSampler`.

What a sampler is, and what every sampler refuses.

The order in which the library's samplers see tokens: an unstable quicksort with the middle item as the pivot.

The samplers of the CAI NEURAL API as they are, under names that usually mean something else.

Its top-k and top-p look at probabilities only to decide which tokens stay; among those, each is as likely as any other.
Its top-p leaves out the token that crosses the bound, so that a bound of 1, which no sum of probabilities crosses,
leaves the largest token alone. Scores and sums are float32. `cai_neural_api.sampling` has what the names
usually mean.

Temperature, top-k, top-p and min-p as the names usually mean them, and a draw by probability.

What the library's nets give are probabilities; a temperature T takes them to the power of 1/T, which is what dividing
logits by T does. Everything behind that is `cai_reference.decoding.sampling`: its order, its ties, its borders, its
draw. `cai_neural_api.sampling` has what the CAI NEURAL API does under these names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_neural_api.errors import LegacyError
from cai_neural_api.mersenne import MersenneTwister
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.sampling import UnitInterval, choose, filtered, ranking


class Sampler(Protocol):
    """Whatever chooses a token."""

    def choose(self, row: Array) -> int:
        """Return the id of the token chosen from its probabilities [vocabulary]."""
        ...


def check_row(row: Array) -> None:
    """Refuse what is not a row of probabilities; they need not add up to one.

    Raises:
        LegacyError (sampling-row-shape, empty-sampling-row): it is not one row, or there is nothing in it.
        LegacyError (not-a-probability): with the first value that is not in [0, 1].
        LegacyError (nothing-probable): all are zero.
    """
    if row.ndim != 1:
        raise LegacyError("sampling-row-shape", shape=row.shape)
    if not len(row):
        raise LegacyError("empty-sampling-row")
    wrong = np.flatnonzero(~((row >= 0.0) & (row <= 1.0)))
    if len(wrong):
        raise LegacyError("not-a-probability", token_id=int(wrong[0]), value=float(row[wrong[0]]))
    if not row.any():
        raise LegacyError("nothing-probable", size=len(row))


def check_top_k(k: int) -> None:
    """Raise `top-k-too-small` unless k ≥ 1."""
    if k < 1:
        raise LegacyError("top-k-too-small", k=k)


def check_top_p(p: float) -> None:
    """Raise `top-p-out-of-range` unless 0 < p ≤ 1."""
    if not 0.0 < p <= 1.0:
        raise LegacyError("top-p-out-of-range", p=p)


def check_min_p(q: float) -> None:
    """Raise `min-p-out-of-range` unless 0 < q ≤ 1."""
    if not 0.0 < q <= 1.0:
        raise LegacyError("min-p-out-of-range", q=q)


def descending(scores: Sequence[float]) -> list[int]:
    """Return the ids of tokens by score, largest first; equal scores stand in the order that the library gives them.

    descending([0.1, 0.3, 0.2, 0.25, 0.3])  →  [1, 4, 3, 2, 0]
    """
    order = list(range(len(scores)))
    pending = [(0, len(order) - 1)]
    while pending:
        first, last = pending.pop()
        if first >= last:
            continue
        low, high = first, last
        middle = scores[order[(first + last) // 2]]
        while low <= high:
            while scores[order[low]] > middle:
                low += 1
            while scores[order[high]] < middle:
                high -= 1
            if low <= high:
                order[low], order[high] = order[high], order[low]
                low, high = low + 1, high - 1
        pending += [(first, high), (low, last)]
    return order


Scores: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class LibraryGreedy:
    """The largest probability; the first of equal ones. Draws nothing."""

    def choose(self, row: Array) -> int:
        """Return the token of the largest float32.

        Raises:
            LegacyError: the row is not one of probabilities.
        """
        return int(np.argmax(_scores(row)))


@dataclass(frozen=True)
class LibraryTopK:
    """One of the k largest, each as likely as the others.

    Attributes:
        k: at least 1, at most the number of tokens.
        generator: gives one draw a token.

    Raises:
        LegacyError (top-k-too-small): k is below 1.
    """

    k: int
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_top_k(self.k)

    def choose(self, row: Array) -> int:
        """Return one of the k largest.

        Raises:
            LegacyError: the row is not one of probabilities.
            LegacyError (top-k-beyond-row): it has fewer than k; the library would read past its end.
        """
        scores = _scores(row)
        if self.k > len(scores):
            raise LegacyError("top-k-beyond-row", k=self.k, size=len(scores))
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
        LegacyError (top-p-out-of-range): p is outside of (0, 1].
    """

    p: float
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_top_p(self.p)

    def choose(self, row: Array) -> int:
        """Return one of the largest.

        Raises:
            LegacyError: the row is not one of probabilities.
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
        LegacyError (min-p-out-of-range): q is outside of (0, 1].
    """

    q: float
    generator: MersenneTwister

    def __post_init__(self) -> None:
        check_min_p(self.q)

    def choose(self, row: Array) -> int:
        """Return one of those that are probable enough.

        Raises:
            LegacyError: the row is not one of probabilities.
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
        raise LegacyError("nothing-probable", size=len(scores))
    return scores


def _descending(scores: Scores) -> list[int]:
    return descending(scores.tolist())


@dataclass(frozen=True)
class StandardSampler:
    """A token drawn by what the filters leave of its probability.

    Attributes:
        generator: gives one draw a token.
        temperature: above 0; below 1 sharpens, above 1 flattens.
        top_k: how many of the largest stay at most; all if left out.
        top_p: the sum that the largest must reach; no cut if left out.
        min_p: the share of the largest probability that a token must have; no cut if left out.
        arithmetic: what the powers of a temperature other than 1 are computed with.

    Raises:
        LegacyError (temperature-out-of-range, top-k-too-small, top-p-out-of-range, min-p-out-of-range): a setting is
            out of range.
    """

    generator: UnitInterval
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    arithmetic: Arithmetic = STRICT

    def __post_init__(self) -> None:
        if not (self.temperature > 0.0 and math.isfinite(self.temperature)):
            raise LegacyError("temperature-out-of-range", temperature=self.temperature)
        if self.top_k is not None:
            check_top_k(self.top_k)
        if self.top_p is not None:
            check_top_p(self.top_p)
        if self.min_p is not None:
            check_min_p(self.min_p)

    def choose(self, row: Array) -> int:
        """Return the token whose interval of the distribution holds the draw.

        Raises:
            LegacyError: the row is not one of probabilities.
        """
        probabilities = self.distribution(row)
        return choose(probabilities, self.generator.unit()).token

    def distribution(self, row: Array) -> Array:
        """Return the probabilities [vocabulary] with which tokens are drawn.

        Raises:
            LegacyError: the row is not one of probabilities.
        """
        check_row(row)
        ranked = ranking(row)[: self.top_k]
        top_p = 1.0 if self.top_p is None else self.top_p
        min_p = 0.0 if self.min_p is None else self.min_p
        return filtered(len(row), ranked, self._weights(row[ranked]), top_p, min_p).probabilities

    def _weights(self, ranked: Array) -> Array:
        """Return weights p^(1/T) of probabilities in rank order, the first of them 1; zeros stay zeros."""
        if self.temperature == 1.0:
            return ranked / float(ranked[0])
        weights = np.zeros(len(ranked))
        possible = ranked > 0.0
        logs = self.arithmetic.log(ranked[possible])
        # At a temperature near zero, what lies below the largest goes to minus infinity.
        with np.errstate(over="ignore"):
            weights[possible] = self.arithmetic.exp((logs - logs[0]) / self.temperature)
        return weights
