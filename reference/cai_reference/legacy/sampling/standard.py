"""Temperature, top-k, top-p and min-p as the names usually mean them, and a draw by probability.

What the library's nets give are probabilities; a temperature T takes them to the power of 1/T, which is what dividing
logits by T does. Everything behind that is `cai_reference.decoding.sampling`: its order, its ties, its borders, its
draw. `cai_reference.legacy.sampling.library` has what the CAI NEURAL API does under these names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import STRICT, Arithmetic, Array
from cai_reference.decoding.sampling.choice import Units, choose
from cai_reference.decoding.sampling.distribution import filtered, ranking
from cai_reference.legacy.sampling.errors import TemperatureOutOfRange
from cai_reference.legacy.sampling.sampler import check_min_p, check_row, check_top_k, check_top_p


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
        TemperatureOutOfRange, TopKTooSmall, TopPOutOfRange, MinPOutOfRange: a setting is out of range.
    """

    generator: Units
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
        """Return the token whose interval of the distribution holds the draw.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
        """
        probabilities = self.distribution(row)
        return choose(probabilities, self.generator.unit()).token

    def distribution(self, row: Array) -> Array:
        """Return the probabilities [vocabulary] with which tokens are drawn.

        Raises:
            LegacySamplingError: the row is not one of probabilities.
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
