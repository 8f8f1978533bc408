"""One call for every error of sampling, stochastic speculation and special tokens, with the error it must raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import STRICT
from cai_reference.decoding.sampling import SamplingSettings, choose, course_distribution, distribution_of
from cai_reference.decoding.sampling import errors as sampling
from cai_reference.decoding.stochastic_drafts import Proposal
from cai_reference.decoding.stochastic_speculation import acceptance
from cai_reference.errors import CaiReferenceError
from cai_reference.text import BpeTokenizer
from cai_reference.text import special_tokens as special

Case = tuple[CaiReferenceError, Callable[[], object]]

HALF = np.array([0.5, 0.5])


def with_an_exponential_that_is_always(value: float) -> object:
    """Make a distribution of two equal logits in an arithmetic whose exponential is at fault."""
    faulty = replace(STRICT, exp=lambda x: np.full(np.shape(x), value))
    return distribution_of(np.zeros(2), SamplingSettings(), faulty)


SETTINGS: list[Case] = [
    (sampling.InvalidTemperature(-0.25), lambda: SamplingSettings(temperature=-0.25)),
    (sampling.InvalidTopK(7, 4), lambda: course_distribution(np.zeros(4), 1.0, 7, STRICT)),
    (sampling.InvalidTopP(1.5), lambda: SamplingSettings(top_p=1.5)),
    (sampling.InvalidMinP(-2.0), lambda: SamplingSettings(min_p=-2.0)),
]

DISTRIBUTIONS: list[Case] = [
    (sampling.EmptyLogits(), lambda: distribution_of(np.zeros(0), SamplingSettings(), STRICT)),
    (
        sampling.VocabularyTooLarge(2**32 + 1, 2**32),
        lambda: distribution_of(np.broadcast_to(np.float64(0), (2**32 + 1,)), SamplingSettings(), STRICT),
    ),
    (sampling.InvalidProbabilitySum(float("nan")), lambda: with_an_exponential_that_is_always(float("nan"))),
    (sampling.EmptySupport(3), lambda: choose(np.zeros(3), 0.5)),
]

PROPOSALS: list[Case] = [
    (sampling.ProposalWidth(3, 2), lambda: acceptance(HALF, Proposal(0, np.ones(3) / 3))),
    (sampling.ImpossibleProposal(1, 2), lambda: acceptance(HALF, Proposal(1, np.array([1.0, 0.0])))),
]

SPECIAL: list[Case] = [
    (
        special.UnknownSpecialName("<pad>", ("<bos>", "<eos>")),
        lambda: special.encode_with_special(BpeTokenizer(()), "", ["<pad>"]),
    ),
    (
        special.EmptySpecialName(1),
        lambda: special.encode_with_special(BpeTokenizer(()), "", [""], {"": 1}),
    ),
    (
        special.SpecialIdIsContent("<a>", 99),
        lambda: special.encode_with_special(BpeTokenizer(()), "", ["<a>"], {"<a>": 99}),
    ),
]

CASES: list[Case] = [*SETTINGS, *DISTRIBUTIONS, *PROPOSALS, *SPECIAL]
