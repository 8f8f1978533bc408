"""From a distribution and one number in [0, 1) to a token.

Ids of positive probability are walked in ascending order. Each owns the interval from the end of the one before to
that plus its probability, at most 1; the last one ends at 1, so that it absorbs what rounding has lost and every
number has an owner. The token is the first whose end is above the number (course, chapter 36).

The intervals are the exact law: of the 2^53 equally likely numbers k / 2^53, those that an interval holds choose its
token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.sampling.distribution import Distribution, distribution_of
from cai_reference.decoding.sampling.errors import EmptySupport
from cai_reference.decoding.sampling.settings import SamplingSettings


class Units(Protocol):
    """Whatever yields doubles in [0, 1), as `SplitMix64` does."""

    def unit(self) -> float:
        """Return the next one."""
        ...


@dataclass(frozen=True)
class Interval:
    """The numbers in [start, end) choose the token."""

    token: int
    start: float
    end: float


@dataclass(frozen=True)
class Choice:
    """A token and how it was chosen.

    Attributes:
        token: the id.
        probability: what the distribution gives it.
        interval: the numbers that choose it.
        unit: the number that was drawn; None where nothing was.
        kept: the ids that could have been considered, in rank order.
    """

    token: int
    probability: float
    interval: Interval
    unit: float | None
    kept: tuple[int, ...]


def intervals(probabilities: Array) -> Iterator[Interval]:
    """Yield the intervals of the positive ones of probabilities [vocabulary], by ascending id.

    Raises:
        EmptySupport: none is positive.
    """
    support = np.flatnonzero(probabilities > 0.0).tolist()
    if not support:
        raise EmptySupport(len(probabilities))
    start = 0.0
    for token in support[:-1]:
        end = min(start + float(probabilities[token]), 1.0)
        yield Interval(token, start, end)
        start = end
    yield Interval(support[-1], start, 1.0)


def choose(probabilities: Array, unit: float) -> Interval:
    """Return the interval that holds a number in [0, 1).

    Raises:
        EmptySupport: no probability is positive.
    """
    interval = Interval(0, 0.0, 0.0)
    for interval in intervals(probabilities):
        if unit < interval.end:
            break
    return interval


def draw(distribution: Distribution, generator: Units) -> Choice:
    """Choose a token with one draw, or with none where the distribution is greedy."""
    if distribution.greedy:
        (token,) = distribution.kept
        return Choice(token, 1.0, Interval(token, 0.0, 1.0), None, distribution.kept)
    unit = generator.unit()
    interval = choose(distribution.probabilities, unit)
    probability = float(distribution.probabilities[interval.token])
    return Choice(interval.token, probability, interval, unit, distribution.kept)


def sample(logits: Array, settings: SamplingSettings, arithmetic: Arithmetic, generator: Units) -> Choice:
    """Choose a token from logits [vocabulary]. One draw a token, even where only one can come; none at temperature 0.

    Raises:
        SamplingError, NonFiniteLogit: as `distribution_of`; the generator has not moved.
    """
    return draw(distribution_of(logits, settings, arithmetic), generator)
