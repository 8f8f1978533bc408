"""What both ways of generating share: a step, why a generation ends, what is chosen, which prompts are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.legacy.generation.errors import NoPromptTokens, PromptTokenUnknown, SeveralFutureTokens
from cai_reference.legacy.sampling import Sampler
from cai_reference.legacy.training.language_model import language_model
from cai_reference.nets.graph.net import Net

FIRST_WORD: Final = 2
"""Ids below this one end a text: 0 is padding, 1 the end."""


class GenerationEnd(StrEnum):
    """Why a generation ended."""

    TOKEN = "end-token"
    STOP = "stop-sequence"
    LIMIT = "limit"
    CONTEXT = "context"


@dataclass(frozen=True)
class Step:
    """A new token.

    Attributes:
        token: its id.
        end: why it is the last one; None if more may follow.
        trimmed: how many of the newest tokens, this one included, a stop sequence takes away.
    """

    token: int
    end: GenerationEnd | None = None
    trimmed: int = 0


@dataclass(frozen=True)
class LegacyGeneration:
    """What came after a prompt.

    Attributes:
        prompt: its ids.
        new: the new ids without a stop sequence; an id that ended the text is one of them.
        end: why it ended.
    """

    prompt: tuple[int, ...]
    new: tuple[int, ...]
    end: GenerationEnd

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and new ids."""
        return (*self.prompt, *self.new)


def collect(prompt: Sequence[int], steps: Iterable[Step], otherwise: GenerationEnd) -> LegacyGeneration:
    """Take all steps; `otherwise` is why there is none, if there is none."""
    taken = list(steps)
    last = taken[-1] if taken else Step(0, otherwise)
    new = [step.token for step in taken]
    return LegacyGeneration(tuple(prompt), tuple(new[: len(new) - last.trimmed]), last.end or otherwise)


def choose(row: Array, sampler: Sampler | None) -> int:
    """Return the sampler's choice from a row [depth], or the first largest without a sampler."""
    return int(np.argmax(row)) if sampler is None else sampler.choose(row)


def check_net(net: Net) -> int:
    """Return how many ids a net knows.

    Raises:
        NotALanguageModel: it does not score the ids that it reads.
        SeveralFutureTokens: it predicts more than the next token.
    """
    vocabulary, heads = language_model(net)
    if heads > 1:
        raise SeveralFutureTokens(heads)
    return vocabulary


def check_ids(prompt: Sequence[int], vocabulary: int) -> None:
    """Refuse prompts without ids, and ids that a net does not know.

    Raises:
        NoPromptTokens, PromptTokenUnknown: as the names say.
    """
    if not len(prompt):
        raise NoPromptTokens
    for position, token in enumerate(prompt):
        if not 0 <= token < vocabulary:
            raise PromptTokenUnknown(position, token, vocabulary)
