"""Errors of the decoding room: sessions, caches, arms. A session that raises one is as it was before the call.

Errors of sampling. None of them moves a generator.

::

    DecodingError
    └── SamplingError

A logit that is not finite is `cai_reference.errors.NonFiniteLogit`, as in greedy decoding.

Source: course, chapter 36 (the variants and what they carry); top-p, min-p and proposals are additions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_reference.errors import CaiReferenceError

DECODING_TEMPLATES: Final[Mapping[str, str]] = {
    # A feed needs at least one token.
    "nothing-to-feed": "a session is fed at least one token",
    # An id is beyond the vocabulary. `index` counts within the fed tokens.
    "token-out-of-range": "token {token} at index {index} is not in a vocabulary of {vocabulary}",
    # More tokens than the caches can hold.
    "capacity-exceeded": "{length} cached tokens and {count} new ones do not fit into a capacity of {capacity}",
    # A session holds at least one token and starts at a position that is not negative.
    "invalid-capacity": "a session cannot start at position {start} with capacity {capacity} and slack {slack}",
    # A session can only be cut to a length between 0 and its own.
    "truncation-out-of-range": "a session of {length} tokens cannot be cut to {requested}",
    # What the layer needs after the cut has been dropped: rows of a ring, or states of a recurrence.
    "truncation-refused": (
        "layer {layer} cannot be cut to {requested} tokens: it can go back to {earliest} and no further"
    ),
    # A snapshot belongs to another model, another arithmetic, or a session with other caches.
    "snapshot-of-another-model": "the snapshot was taken of another {what}",
    # A score of attention is not finite. `key` counts within the visible ones, oldest first.
    "non-finite-score": "head {head} scores visible key {key} with {value}",
    # A prompt has no tokens.
    "empty-prompt": "a prompt needs at least one token",
    # A prompt leaves no room in the context.
    "prompt-too-long": "a prompt of {length} tokens leaves no room in a context of {context}",
    # There are no logits.
    "empty-logits": "there are no logits to choose from",
    # There are more logits than token ids.
    "vocabulary-too-large": "{vocabulary} logits are more than the {limit} token ids",
    # A temperature is not finite, or negative, or zero where only chance is offered.
    "invalid-temperature": (
        "temperature {value}: it must be finite and above zero, or zero where that means the largest logit"
    ),
    # The number of ids to keep is not between 1 and the vocabulary.
    "invalid-top-k": "top-k {top_k} is not between 1 and a vocabulary of {vocabulary}",
    # The mass to keep is not above 0 and at most 1.
    "invalid-top-p": "top-p {value} is not above 0 and at most 1",
    # The smallest kept part of the largest probability is not between 0 and 1.
    "invalid-min-p": "min-p {value} is not between 0 and 1",
    # The probabilities add up to something else than 1: the arithmetic's exponential is at fault.
    "invalid-probability-sum": "the probabilities add up to {total}, which is more than 1e-12 away from 1",
    # No id has a positive probability.
    "empty-support": "none of {vocabulary} probabilities is positive",
    # A draft proposes a token that cannot come from the law that it states.
    "impossible-proposal": "the draft proposes token {token}, which its own law over {vocabulary} ids excludes",
    # A draft states a law over another vocabulary than the target's.
    "proposal-width": "the draft's law is over {draft} ids, the target's over {target}",
}


class DecodingError(CaiReferenceError):
    """A sequence cannot be decoded as asked."""

    templates = DECODING_TEMPLATES


class SessionError(DecodingError):
    """A streaming session refuses a call."""


class SamplingError(DecodingError):
    """A token cannot be drawn."""
