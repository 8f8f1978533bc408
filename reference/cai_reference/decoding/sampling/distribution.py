"""From logits to the exact distribution that is drawn from.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.graph import first_non_finite
from cai_reference.decoding.sampling.compensated import compensated_sum, compensated_sums
from cai_reference.decoding.sampling.errors import EmptyLogits, InvalidProbabilitySum, VocabularyTooLarge
from cai_reference.decoding.sampling.settings import SamplingSettings
from cai_reference.models.errors import NonFiniteLogit
from cai_reference.text.tokenizer import MAXIMUM_IDS

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
        EmptyLogits, VocabularyTooLarge: there is no choice, or no id for each logit.
        NonFiniteLogit: a logit is NaN or infinite; the lowest id is named.
        InvalidTopK: more ids are to be kept than there are.
        InvalidProbabilitySum: the arithmetic's exponential is no exponential.
    """
    check_logits(logits)
    settings.check_vocabulary(len(logits))
    ranked = ranking(logits)
    if settings.greedy:
        return _normalized(len(logits), ranked[:1], np.ones(1), greedy=True)
    ranked = ranked[: settings.top_k]
    weights = weights_of(logits[ranked], settings.temperature, arithmetic)
    return filtered(len(logits), ranked, weights, settings.top_p, settings.min_p)


def filtered(
    vocabulary: int, ranked: npt.NDArray[np.int64], weights: Array, top_p: float, min_p: float
) -> Distribution:
    """Return what top-p and min-p leave of ids that are given in rank order, with weights of which the first is 1.

    Raises:
        InvalidProbabilitySum: a weight is no number.
    """
    inside = nucleus(weights, top_p)
    ranked, weights = ranked[:inside], weights[:inside]
    # Not "at least": a weight that is no number is for the check of the sum to find, not to be dropped in silence.
    likely = ~(weights < min_p)
    return _normalized(vocabulary, ranked[likely], weights[likely], greedy=False)


def check_logits(logits: Array) -> None:
    """Refuse logits [vocabulary] that nothing can be drawn from.

    Raises:
        EmptyLogits, VocabularyTooLarge, NonFiniteLogit: looked for in this order.
    """
    if len(logits) == 0:
        raise EmptyLogits
    if len(logits) > MAXIMUM_IDS:
        raise VocabularyTooLarge(len(logits), MAXIMUM_IDS)
    index = first_non_finite(logits)
    if index is not None:
        raise NonFiniteLogit(index, float(logits[index]))


def ranking(logits: Array) -> npt.NDArray[np.int64]:
    """Return all ids by descending logit, ties by ascending id."""
    return np.argsort(-logits, kind="stable").astype(np.int64)


def weights_of(ranked: Array, temperature: float, arithmetic: Arithmetic) -> Array:
    """Return the weights of logits that are given in rank order: 1 for the first, exp of the scaled gap for the rest.

    A gap of −inf is the weight 0.
    """
    with np.errstate(over="ignore"):
        gaps = _scaled_gaps(ranked, ranked[0], temperature)
    weights = np.array(arithmetic.exp(gaps))
    weights[0] = 1.0
    return weights


def nucleus(weights: Array, top_p: float) -> int:
    """Return how many ranks have at least the part `top_p` of all weight, the one that crosses it included."""
    # Small weights at the end may leave the running sum as it is, and 1 is to keep them, too.
    if top_p == 1.0:
        return len(weights)
    values = weights.tolist()
    threshold = top_p * compensated_sum(values)
    reached = (count for count, mass in enumerate(compensated_sums(values), start=1) if mass >= threshold)
    return next(reached, len(values))


def total_variation(first: Array, second: Array, arithmetic: Arithmetic) -> float:
    """Return half the sum of the absolute differences of two distributions: 0 for equal, 1 for disjoint ones."""
    return 0.5 * float(arithmetic.sum(np.abs(first - second)))


def _normalized(vocabulary: int, kept: npt.NDArray[np.int64], weights: Array, *, greedy: bool) -> Distribution:
    probabilities = np.zeros(vocabulary)
    probabilities[kept] = weights / compensated_sum(weights.tolist())
    probabilities.setflags(write=False)
    total = compensated_sum(probabilities.tolist())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InvalidProbabilitySum(total)
    return Distribution(tuple(kept.tolist()), probabilities, total, greedy)


def _scaled_gaps(ranked: Array, highest: float, temperature: float) -> Array:
    # Below 1 a logit divided by the temperature could overflow; from 1 on the difference of two logits could.
    if temperature < 1.0:
        return (ranked - highest) / temperature
    return ranked / temperature - highest / temperature
