"""Sampling: from logits to a distribution, from a distribution and a draw to a token, from tokens to a text."""

from cai_reference.decoding.sampling.choice import Choice, Interval, Units, choose, draw, intervals, sample
from cai_reference.decoding.sampling.course import course_distribution, course_sample
from cai_reference.decoding.sampling.distribution import Distribution, distribution_of, total_variation
from cai_reference.decoding.sampling.generation import SampledGeneration, sample_generation
from cai_reference.decoding.sampling.settings import SamplingSettings

__all__ = [
    "Choice",
    "Distribution",
    "Interval",
    "SampledGeneration",
    "SamplingSettings",
    "Units",
    "choose",
    "course_distribution",
    "course_sample",
    "distribution_of",
    "draw",
    "intervals",
    "sample",
    "sample_generation",
    "total_variation",
]
