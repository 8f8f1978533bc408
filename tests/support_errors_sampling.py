"""One call for every error of sampling, stochastic speculation and special tokens, with the error it must raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import SamplingError
from cai_reference.decoding.sampling import SamplingSettings, choose, course_distribution, distribution_of
from cai_reference.decoding.stochastic_speculation import Proposal, acceptance
from cai_reference.errors import CaiReferenceError
from cai_reference.text import tokenizer as special
from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BpeTokenizer

Case = tuple[CaiReferenceError, Callable[[], object]]

HALF = np.array([0.5, 0.5])


def with_an_exponential_that_is_always(value: float) -> object:
    """Make a distribution of two equal logits in an arithmetic whose exponential is at fault."""
    faulty = replace(STRICT, exp=lambda x: np.full(np.shape(x), value))
    return distribution_of(np.zeros(2), SamplingSettings(), faulty)


SETTINGS: list[Case] = [
    (SamplingError("invalid-temperature", value=-0.25), lambda: SamplingSettings(temperature=-0.25)),
    (SamplingError("invalid-top-k", top_k=7, vocabulary=4), lambda: course_distribution(np.zeros(4), 1.0, 7, STRICT)),
    (SamplingError("invalid-top-p", value=1.5), lambda: SamplingSettings(top_p=1.5)),
    (SamplingError("invalid-min-p", value=-2.0), lambda: SamplingSettings(min_p=-2.0)),
]

DISTRIBUTIONS: list[Case] = [
    (SamplingError("empty-logits"), lambda: distribution_of(np.zeros(0), SamplingSettings(), STRICT)),
    (
        SamplingError("vocabulary-too-large", vocabulary=2**32 + 1, limit=2**32),
        lambda: distribution_of(np.broadcast_to(np.float64(0), (2**32 + 1,)), SamplingSettings(), STRICT),
    ),
    (
        SamplingError("invalid-probability-sum", total=float("nan")),
        lambda: with_an_exponential_that_is_always(float("nan")),
    ),
    (SamplingError("empty-support", vocabulary=3), lambda: choose(np.zeros(3), 0.5)),
]

PROPOSALS: list[Case] = [
    (SamplingError("proposal-width", draft=3, target=2), lambda: acceptance(HALF, Proposal(0, np.ones(3) / 3))),
    (
        SamplingError("impossible-proposal", token=1, vocabulary=2),
        lambda: acceptance(HALF, Proposal(1, np.array([1.0, 0.0]))),
    ),
]

SPECIAL: list[Case] = [
    (
        BpeTokenizerError("unknown-special-name", name="<pad>", known=("<bos>", "<eos>")),
        lambda: special.encode_with_special(BpeTokenizer(()), "", ["<pad>"]),
    ),
    (
        BpeTokenizerError("empty-special-name", token_id=1),
        lambda: special.encode_with_special(BpeTokenizer(()), "", [""], {"": 1}),
    ),
    (
        BpeTokenizerError("special-id-is-content", name="<a>", token_id=99),
        lambda: special.encode_with_special(BpeTokenizer(()), "", ["<a>"], {"<a>": 99}),
    ),
]

CASES: list[Case] = [*SETTINGS, *DISTRIBUTIONS, *PROPOSALS, *SPECIAL]
