"""Sampling: from logits to the exact distribution that is drawn from, and from one number in [0, 1) to a token.

Ids are ranked by descending logit, ties by ascending id; equal zeros tie whatever their signs. Then, in this order:

1. *temperature* gives each id a weight: 1 for the first rank, exp of the scaled gap to it for the others;
2. *top-k* keeps the first k ranks, so that of tied ids at the border the smaller ones stay;
3. *top-p* keeps the shortest run of ranks whose weight reaches top-p times the weight of what top-k has kept: the id
   that crosses the mass stays, and where the mass is met exactly none is added;
4. *min-p* keeps weights of at least min-p: a part of the largest probability, because the largest weight is 1.

Each stage sees what the one before has kept. Top-p is therefore a part of the renormalised mass, compared as weights,
so that no division rounds on the way; min-p is a ratio and the same before and after renormalising. What is left is
divided by its compensated sum in rank order; every other id has probability 0. A kept id may have it, too: its weight
can underflow.

Others choose otherwise, which changes what is kept as soon as two stages are on. Hugging Face's transformers run
temperature, top-k, top-p, min-p, as here. llama.cpp (by default) runs top-k, top-p, min-p, and the temperature last;
mlx-lm top-p, min-p, top-k, and the temperature last; vLLM temperature, then top-k with all ties at its border, then
top-p. The order here is the one in which each setting acts on the distribution that the earlier ones describe.

With top-p 1 and min-p 0 this is the sampler of the course, chapter 36.

To choose, ids of positive probability are walked in ascending order. Each owns the interval from the end of the one
before to that plus its probability, at most 1; the last one ends at 1, so that it absorbs what rounding has lost and
every number has an owner. The token is the first whose end is above the number (course, chapter 36).

The intervals are the exact law: of the 2^53 equally likely numbers k / 2^53, those that an interval holds choose its
token.

The sampler of the course is `sample` with top-p and min-p off. What it has of its own is that a temperature of 0 is an
error, not a greedy choice, and the order in which it looks for errors: the logits first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import first_non_finite
from cai_reference.decoding.errors import SamplingError
from cai_reference.errors import ModelError
from cai_reference.text.tokenizer import MAXIMUM_IDS


@dataclass(frozen=True)
class SamplingSettings:
    """How logits become a distribution; every default keeps all.

    Attributes:
        temperature: divides the logits; 0 takes the largest logit and draws nothing.
        top_k: keep so many ids; None for all.
        top_p: keep the shortest run of the likeliest ids that has at least this mass; 1 for all.
        min_p: keep ids that have at least this part of the largest probability; 0 for all.

    Raises:
        SamplingError (invalid-temperature, invalid-top-k, invalid-top-p, invalid-min-p): looked for in this order.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0):
            raise SamplingError("invalid-temperature", value=self.temperature)
        self.check_vocabulary(MAXIMUM_IDS)
        if not 0.0 < self.top_p <= 1.0:
            raise SamplingError("invalid-top-p", value=self.top_p)
        if not 0.0 <= self.min_p <= 1.0:
            raise SamplingError("invalid-min-p", value=self.min_p)

    @property
    def greedy(self) -> bool:
        """Whether the largest logit is taken, without chance."""
        return self.temperature == 0.0

    def check_vocabulary(self, vocabulary: int) -> None:
        """Refuse a top-k beyond a vocabulary; whoever knows its size may ask before any other work.

        Raises:
            SamplingError (invalid-top-k): more ids are to be kept than there are.
        """
        if self.top_k is not None and not 1 <= self.top_k <= vocabulary:
            raise SamplingError("invalid-top-k", top_k=self.top_k, vocabulary=vocabulary)


def compensated_sums(values: Iterable[float]) -> Iterator[float]:
    """Yield the running sum after each value, starting from +0.0."""
    total = lost = 0.0
    for value in values:
        addend = value - lost
        grown = total + addend
        # by how much the rounded sum is too large; taken off the next term
        lost = (grown - total) - addend
        total = grown
        yield total


def compensated_sum(values: Iterable[float]) -> float:
    """Return the last running sum; +0.0 for no values."""
    total = 0.0
    for running in compensated_sums(values):
        total = running
    return total


SUM_TOLERANCE: Final = 1e-12
"""How far the sum of all probabilities may be from 1."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """What a token is drawn from.

    Attributes:
        kept: the ids that no stage removed, in rank order.
        probabilities: [vocabulary], read-only; positive only for kept ids.
        total: their compensated sum in the order of ids.
        greedy: whether it came from temperature 0, so that choosing takes no draw.
    """

    kept: tuple[int, ...]
    probabilities: Array
    total: float
    greedy: bool

    def support(self) -> tuple[int, ...]:
        """Return the ids of positive probability, ascending."""
        return tuple(np.flatnonzero(self.probabilities > 0.0).tolist())


def distribution_of(logits: Array, settings: SamplingSettings, arithmetic: Arithmetic) -> Distribution:
    """Return the distribution over logits [vocabulary]; at temperature 0 all of it on the first rank.

    Raises:
        SamplingError (empty-logits), NetInputError (vocabulary-too-large): there is no choice, or no id for each logit.
        ModelError (non-finite-logit): a logit is NaN or infinite; the lowest id is named.
        SamplingError (invalid-top-k): more ids are to be kept than there are.
        SamplingError (invalid-probability-sum): the arithmetic's exponential is no exponential.
    """
    check_logits(logits)
    settings.check_vocabulary(len(logits))
    ranked = ranking(logits)
    if settings.greedy:
        return _normalized(len(logits), ranked[:1], np.ones(1), greedy=True)
    # a slice up to None is all of it
    ranked = ranked[: settings.top_k]
    weights = weights_of(logits[ranked], settings.temperature, arithmetic)
    return filtered(len(logits), ranked, weights, settings.top_p, settings.min_p)


def filtered(
    vocabulary: int, ranked: npt.NDArray[np.int64], weights: Array, top_p: float, min_p: float
) -> Distribution:
    """Return what top-p and min-p leave of ids that are given in rank order, with weights of which the first is 1.

    Raises:
        SamplingError (invalid-probability-sum): a weight is no number.
    """
    inside = nucleus(weights, top_p)
    ranked, weights = ranked[:inside], weights[:inside]
    # Not "at least": a weight that is no number is for the check of the sum to find, not to be dropped in silence.
    likely = ~(weights < min_p)
    return _normalized(vocabulary, ranked[likely], weights[likely], greedy=False)


def check_logits(logits: Array) -> None:
    """Refuse logits [vocabulary] that nothing can be drawn from.

    Raises:
        SamplingError (empty-logits), NetInputError (vocabulary-too-large), ModelError (non-finite-logit): looked for in
            this order.
    """
    if len(logits) == 0:
        raise SamplingError("empty-logits")
    if len(logits) > MAXIMUM_IDS:
        raise SamplingError("vocabulary-too-large", vocabulary=len(logits), limit=MAXIMUM_IDS)
    index = first_non_finite(logits)
    if index is not None:
        raise ModelError("non-finite-logit", token_id=index, value=float(logits[index]))


def ranking(logits: Array) -> npt.NDArray[np.int64]:
    """Return all ids by descending logit, ties by ascending id."""
    # a stable sort of the negated logits: descending, and ties keep the lowest id in front
    return np.argsort(-logits, kind="stable").astype(np.int64)


def weights_of(ranked: Array, temperature: float, arithmetic: Arithmetic) -> Array:
    """Return the weights of logits that are given in rank order: 1 for the first, exp of the scaled gap for the rest.

    A gap of −inf is the weight 0.
    """
    with np.errstate(over="ignore"):
        gaps = _scaled_gaps(ranked, ranked[0], temperature)
    weights = np.array(arithmetic.exp(gaps))
    # exactly, whatever exp(0) is in this arithmetic
    weights[0] = 1.0
    return weights


def nucleus(weights: Array, top_p: float) -> int:
    """Return how many ranks have at least the part `top_p` of all weight, the one that crosses it included."""
    # Small weights at the end may leave the running sum as it is, and 1 is to keep them, too.
    if top_p == 1.0:
        return len(weights)
    values = weights.tolist()
    # compared as weights, so that no division rounds
    threshold = top_p * compensated_sum(values)
    reached = (count for count, mass in enumerate(compensated_sums(values), start=1) if mass >= threshold)
    return next(reached, len(values))


def _normalized(vocabulary: int, kept: npt.NDArray[np.int64], weights: Array, *, greedy: bool) -> Distribution:
    probabilities = np.zeros(vocabulary)
    probabilities[kept] = weights / compensated_sum(weights.tolist())
    probabilities.setflags(write=False)
    total = compensated_sum(probabilities.tolist())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise SamplingError("invalid-probability-sum", total=total)
    return Distribution(tuple(kept.tolist()), probabilities, total, greedy)


def _scaled_gaps(ranked: Array, highest: float, temperature: float) -> Array:
    # Below 1 a logit divided by the temperature could overflow; from 1 on the difference of two logits could.
    if temperature < 1.0:
        return (ranked - highest) / temperature
    return ranked / temperature - highest / temperature


class UnitInterval(Protocol):
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
        SamplingError (empty-support): none is positive.
    """
    support = np.flatnonzero(probabilities > 0.0).tolist()
    if not support:
        raise SamplingError("empty-support", vocabulary=len(probabilities))
    # intervals stand side by side in the order of ids, not of ranks
    start = 0.0
    for token in support[:-1]:
        end = min(start + float(probabilities[token]), 1.0)
        yield Interval(token, start, end)
        start = end
    # the last one takes up what rounding has lost
    yield Interval(support[-1], start, 1.0)


def choose(probabilities: Array, unit: float) -> Interval:
    """Return the interval that holds a number in [0, 1).

    Raises:
        SamplingError (empty-support): no probability is positive.
    """
    interval = Interval(0, 0.0, 0.0)
    for interval in intervals(probabilities):
        # half-open: a number on a border belongs to the next id
        if unit < interval.end:
            break
    return interval


def draw(distribution: Distribution, generator: UnitInterval) -> Choice:
    """Choose a token with one draw, or with none where the distribution is greedy."""
    if distribution.greedy:
        (token,) = distribution.kept
        return Choice(token, 1.0, Interval(token, 0.0, 1.0), None, distribution.kept)
    unit = generator.unit()
    interval = choose(distribution.probabilities, unit)
    probability = float(distribution.probabilities[interval.token])
    return Choice(interval.token, probability, interval, unit, distribution.kept)


def sample(logits: Array, settings: SamplingSettings, arithmetic: Arithmetic, generator: UnitInterval) -> Choice:
    """Choose a token from logits [vocabulary]. One draw a token, even where only one can come; none at temperature 0.

    Raises:
        SamplingError, `non-finite-logit`: as `distribution_of`; the generator has not moved.
    """
    return draw(distribution_of(logits, settings, arithmetic), generator)


def course_distribution(logits: Array, temperature: float, top_k: int, arithmetic: Arithmetic) -> Distribution:
    """Return the distribution over logits [vocabulary].

    Raises:
        SamplingError (empty-logits, invalid-temperature, invalid-top-k), NetInputError (vocabulary-too-large),
            ModelError (non-finite-logit): looked for in this order.
        SamplingError (invalid-probability-sum): the arithmetic's exponential is no exponential.
    """
    check_logits(logits)
    if temperature == 0.0:
        raise SamplingError("invalid-temperature", value=temperature)
    settings = SamplingSettings(temperature)
    if not 1 <= top_k <= len(logits):
        raise SamplingError("invalid-top-k", top_k=top_k, vocabulary=len(logits))
    return distribution_of(logits, replace(settings, top_k=top_k), arithmetic)


def course_sample(
    logits: Array, temperature: float, top_k: int, arithmetic: Arithmetic, generator: UnitInterval
) -> Choice:
    """Choose a token with one draw.

    Raises:
        SamplingError, `non-finite-logit`: as `course_distribution`; the generator has not moved.
    """
    return draw(course_distribution(logits, temperature, top_k, arithmetic), generator)
