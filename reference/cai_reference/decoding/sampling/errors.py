"""Errors of sampling. None of them moves a generator.

::

    DecodingError
    └── SamplingError
        ├── EmptyLogits            nothing to choose from
        ├── VocabularyTooLarge     more logits than there are ids
        ├── InvalidTemperature     ┐
        ├── InvalidTopK            │ a setting
        ├── InvalidTopP            │
        ├── InvalidMinP            ┘
        ├── InvalidProbabilitySum  the probabilities do not add up to 1
        ├── EmptySupport           no probability is positive
        ├── ImpossibleProposal     a draft proposes what its own law excludes
        └── ProposalWidth          a draft's law is over another vocabulary

A logit that is not finite is `cai_reference.models.errors.NonFiniteLogit`, as in greedy decoding.

Source: course, chapter 36 (the variants and what they carry); top-p, min-p and proposals are additions.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.decoding.errors import DecodingError


class SamplingError(DecodingError):
    """A token cannot be drawn."""


@dataclass(eq=False)
class EmptyLogits(SamplingError):
    """There are no logits."""

    template = "there are no logits to choose from"


@dataclass(eq=False)
class VocabularyTooLarge(SamplingError):
    """There are more logits than token ids."""

    template = "{vocabulary} logits are more than the {limit} token ids"
    vocabulary: int
    limit: int


@dataclass(eq=False)
class InvalidTemperature(SamplingError):
    """A temperature is not finite, or negative, or zero where only chance is offered."""

    template = "temperature {value}: it must be finite and above zero, or zero where that means the largest logit"
    value: float


@dataclass(eq=False)
class InvalidTopK(SamplingError):
    """The number of ids to keep is not between 1 and the vocabulary."""

    template = "top-k {top_k} is not between 1 and a vocabulary of {vocabulary}"
    top_k: int
    vocabulary: int


@dataclass(eq=False)
class InvalidTopP(SamplingError):
    """The mass to keep is not above 0 and at most 1."""

    template = "top-p {value} is not above 0 and at most 1"
    value: float


@dataclass(eq=False)
class InvalidMinP(SamplingError):
    """The smallest kept part of the largest probability is not between 0 and 1."""

    template = "min-p {value} is not between 0 and 1"
    value: float


@dataclass(eq=False)
class InvalidProbabilitySum(SamplingError):
    """The probabilities add up to something else than 1: the arithmetic's exponential is at fault."""

    template = "the probabilities add up to {total}, which is more than 1e-12 away from 1"
    total: float


@dataclass(eq=False)
class EmptySupport(SamplingError):
    """No id has a positive probability."""

    template = "none of {vocabulary} probabilities is positive"
    vocabulary: int


@dataclass(eq=False)
class ImpossibleProposal(SamplingError):
    """A draft proposes a token that cannot come from the law that it states."""

    template = "the draft proposes token {token}, which its own law over {vocabulary} ids excludes"
    token: int
    vocabulary: int


@dataclass(eq=False)
class ProposalWidth(SamplingError):
    """A draft states a law over another vocabulary than the target's."""

    template = "the draft's law is over {draft} ids, the target's over {target}"
    draft: int
    target: int
