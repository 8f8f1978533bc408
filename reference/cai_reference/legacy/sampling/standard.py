"""Temperature, top-k, top-p and min-p as the names usually mean them, and a draw by probability.

The filters follow one another in this order, each on the renormalised outcome of the one before:

1. temperature T: probabilities to the power of 1/T;
2. top-k: the k largest, or all if there are fewer;
3. top-p: the largest ones up to and including the one with which their sum reaches p (Holtzman et al., "The curious
   case of neural text degeneration", 2020);
4. min-p: those with at least q times the largest probability.

Where equal probabilities stand on both sides of a cut, the lower ids stay. What is filtered here are the probabilities
that the library's nets give; `cai_reference.decoding.sampling` filters a decoder's logits by the same rules.
`cai_reference.legacy.sampling.library` has what the CAI NEURAL API does under these names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_reference.arithmetic import STRICT, Arithmetic, Array
from cai_reference.legacy.sampling.errors import TemperatureOutOfRange
from cai_reference.legacy.sampling.sampler import check_min_p, check_row, check_top_k, check_top_p

Ids: TypeAlias = NDArray[np.intp]


class UnitDraws(Protocol):
    """Whatever draws from [0, 1), such as `cai_reference.splitmix.SplitMix64`."""

    def unit(self) -> float:
        """Return a double in [0, 1)."""
        ...


@dataclass(frozen=True)
class StandardSampler:
    """A token drawn by what the filters leave of its probability.

    Attributes:
        generator: gives one draw a token.
        temperature: above 0; below 1 sharpens, above 1 flattens.
        top_k: how many of the largest stay at most; all if left out.
        top_p: the sum that the largest must reach; no cut if left out.
        min_p: the share of the largest probability that a token must have; no cut if left out.
        arithmetic: what logarithms, exponentials and sums are computed with.

    Raises:
        TemperatureOutOfRange, TopKTooSmall, TopPOutOfRange, MinPOutOfRange: a setting is out of range.
    """

    generator: UnitDraws
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    arithmetic: Arithmetic = STRICT

    def __post_init__(self) -> None:
        if not (self.temperature > 0.0 and math.isfinite(self.temperature)):
            raise TemperatureOutOfRange(self.temperature)
        if self.top_k is not None:
            check_top_k(self.top_k)
        if self.top_p is not None:
            check_top_p(self.top_p)
        if self.min_p is not None:
            check_min_p(self.min_p)

    def choose(self, row: Array) -> int:
        """Return the first token in the order of ids at which the summed distribution exceeds the draw.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        sums = list(accumulate(self.distribution(row).tolist()))
        # A draw is at most 1 - 2^-53, and so its product with the sum is below the sum.
        draw = self.generator.unit() * sums[-1]
        return int(np.searchsorted(np.array(sums), draw, side="right"))

    def distribution(self, row: Array) -> Array:
        """Return the probabilities [vocabulary] with which tokens are drawn.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        check_row(row)
        kept = self._renormalized(self._tempered(row))
        if self.top_k is not None:
            kept = self._only(kept, _largest(kept)[: self.top_k])
        if self.top_p is not None:
            order = _largest(kept)
            sums = list(accumulate(kept[order].tolist()))
            reaching = next((place for place, total in enumerate(sums) if total >= self.top_p), len(sums) - 1)
            kept = self._only(kept, order[: reaching + 1])
        if self.min_p is not None:
            kept = self._only(kept, np.flatnonzero(kept >= self.min_p * kept.max()))
        return kept

    def _tempered(self, row: Array) -> Array:
        """Return weights p^(1/T), the largest of them 1; zeros stay zeros."""
        if self.temperature == 1.0:
            return row
        weights = np.zeros(len(row))
        possible = np.flatnonzero(row)
        logs = self.arithmetic.log(row[possible])
        # At a temperature near zero, what lies below the largest goes to minus infinity.
        with np.errstate(over="ignore"):
            weights[possible] = self.arithmetic.exp((logs - logs.max()) / self.temperature)
        return weights

    def _only(self, kept: Array, tokens: Ids) -> Array:
        filtered = np.zeros(len(kept))
        filtered[tokens] = kept[tokens]
        return self._renormalized(filtered)

    def _renormalized(self, weights: Array) -> Array:
        return weights / self.arithmetic.sum(weights)


def _largest(kept: Array) -> Ids:
    """Return the ids by probability, largest first, equal ones by id."""
    return np.argsort(-kept, kind="stable")
