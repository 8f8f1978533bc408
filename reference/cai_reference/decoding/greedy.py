"""Greedy decoding of a fixed-context model.

The context slides: the newest token comes in, the oldest goes out. EOS ends the continuation and is not part of it
(course, chapter 23; decoders with a growing context stop otherwise).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import first_non_finite
from cai_reference.errors import ModelError
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.text.tokenizer import EOS


class Stop(StrEnum):
    """Why a continuation ended."""

    EOS = "eos"
    LIMIT = "limit"


@dataclass(frozen=True)
class Continuation:
    """The generated ids, without prompt and EOS; per choice the top-2 margin; why it ended."""

    ids: tuple[int, ...]
    margins: tuple[float, ...]
    stop: Stop


def greedy_token(logits: Array, masked: Collection[int] = ()) -> int:
    """Return the id of the largest logit [V] that is not masked; of several, the lowest id (+0.0 and −0.0 tie).

    Raises:
        ModelError (masked-token-out-of-bounds): a masked id is beyond the vocabulary.
        ModelError (no-unmasked-token): every id is masked.
        ModelError (non-finite-logit): a logit is not finite, masked or not; the lowest id is named.
    """
    check_mask(masked, len(logits))
    index = first_non_finite(logits)
    if index is not None:
        raise ModelError("non-finite-logit", token_id=index, value=float(logits[index]))
    if len(set(masked)) == len(logits):
        raise ModelError("no-unmasked-token")
    # masked ids lose against every finite logit
    candidates = logits.copy()
    candidates[list(masked)] = -np.inf
    # argmax returns the first of equal maxima: the lowest id; -0.0 and +0.0 compare equal
    return int(np.argmax(candidates))


def check_mask(masked: Collection[int], vocabulary_size: int) -> None:
    """Refuse a mask that names an id beyond the vocabulary.

    Raises:
        ModelError (masked-token-out-of-bounds): with the lowest such id.
    """
    for token in sorted(masked):
        if not 0 <= token < vocabulary_size:
            raise ModelError("masked-token-out-of-bounds", token_id=token, vocabulary_size=vocabulary_size)


def margin(logits: Array, masked: Collection[int] = ()) -> float:
    """Return the gap between the two largest logits that are not masked; infinite where there is only one."""
    ordered = sorted((value for token, value in enumerate(logits.tolist()) if token not in masked), reverse=True)
    return ordered[0] - ordered[1] if len(ordered) > 1 else float("inf")


def continue_greedily(
    model: NeuralNgram, prompt: Sequence[int], limit: int, arithmetic: Arithmetic, masked: Collection[int] = ()
) -> Continuation:
    """Continue a prompt of exactly the model's context length by up to `limit` tokens.

    Raises:
        ModelError (masked-token-out-of-bounds): before any forward pass.
        NgramError (context-token-count-mismatch), LayerError: the prompt does not fit the model.
        ModelError (no-unmasked-token, non-finite-logit): as `greedy_token`.
    """
    check_mask(masked, model.configuration.vocabulary)
    context = list(prompt)
    ids: list[int] = []
    margins: list[float] = []
    for _ in range(limit):
        logits = model.next_token_logits(arithmetic, context)
        token = greedy_token(logits, masked)
        margins.append(margin(logits, masked))
        if token == EOS:
            return Continuation(tuple(ids), tuple(margins), Stop.EOS)
        ids.append(token)
        context = [*context[1:], token]
    return Continuation(tuple(ids), tuple(margins), Stop.LIMIT)
