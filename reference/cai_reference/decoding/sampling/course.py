"""The sampler of the course, chapter 36: temperature and top-k, always with chance.

It is `sample` with top-p and min-p off. What it has of its own is that a temperature of 0 is an error, not a greedy
choice, and the order in which it looks for errors: the logits first.
"""

from __future__ import annotations

from dataclasses import replace

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.sampling.choice import Choice, Units, draw
from cai_reference.decoding.sampling.distribution import Distribution, check_logits, distribution_of
from cai_reference.decoding.sampling.errors import InvalidTemperature, InvalidTopK
from cai_reference.decoding.sampling.settings import SamplingSettings


def course_distribution(logits: Array, temperature: float, top_k: int, arithmetic: Arithmetic) -> Distribution:
    """Return the distribution over logits [vocabulary].

    Raises:
        EmptyLogits, VocabularyTooLarge, NonFiniteLogit, InvalidTemperature, InvalidTopK: looked for in this order.
        InvalidProbabilitySum: the arithmetic's exponential is no exponential.
    """
    check_logits(logits)
    if temperature == 0.0:
        raise InvalidTemperature(temperature)
    settings = SamplingSettings(temperature)
    if not 1 <= top_k <= len(logits):
        raise InvalidTopK(top_k, len(logits))
    return distribution_of(logits, replace(settings, top_k=top_k), arithmetic)


def course_sample(logits: Array, temperature: float, top_k: int, arithmetic: Arithmetic, generator: Units) -> Choice:
    """Choose a token with one draw.

    Raises:
        SamplingError, NonFiniteLogit: as `course_distribution`; the generator has not moved.
    """
    return draw(course_distribution(logits, temperature, top_k, arithmetic), generator)
