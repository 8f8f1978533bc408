"""How the CAI NEURAL API continues a text: by encoding everything again, or by a session that is fed token by token.

| | `whole_context`, `generate_text` | `streamed` |
|---|---|---|
| a forward pass reads | the whole context | one token |
| behind the tokens stands | what the net read last | nothing |
| ends with | an id below 2, a full context | those, a list of ids, stop sequences, a budget |
| of a full prompt it makes | one token more | nothing |

On a net that does not look ahead both choose the same tokens, whatever stands behind them.

What both ways of generating share: a step, why a generation ends, what is chosen, which prompts are refused.

Generation by encoding the whole context again for every token, and what it makes of a text.

The ids stand at the start of the input. Behind them stands what the net read last: the library copies that input and
overwrites its start, but clears nothing. A net in which no token sees later ones gives the same rows whatever stands
there; any other one does not. At least one token is always generated, so that a prompt that fills the context becomes
one token longer than the context. Source: CAI NEURAL API, GenerateStringFromTokens; the stale tail was read, not
measured.

Generation by a session that is fed one token at a time.

The session is reset and fed all of the prompt but its last token; then each step feeds the newest token and chooses
from the row behind it. A new token is looked at in this order: do the new tokens end with a stop sequence, does the
token end a text, is there room for another one. Stop sequences are looked for in new tokens alone, and of several that
match, the longest is taken away; a token that ends a text stays.

Three things of the library's helper have no place here. It refuses nets of another input width than 1, for which the
library needs a second net of the same weights; a session here feeds one token to any net that can be streamed. It
resets samplers, of which none here remembers anything. And it takes processors of rows, and refuses those that want
scores before the softmax; a sampler of one's own is such a processor here. Source: CAI NEURAL API, streaming generation
helper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from cai_neural_api.errors import LegacyError
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.sampling import Sampler
from cai_neural_api.tokenizer import Vocabulary, decode, encode
from cai_neural_api.training.pairs import language_model
from cai_reference.arithmetic import Arithmetic, Array

FIRST_WORD: Final = 2
"""Ids below this one end a text: 0 is padding, 1 the end."""


class GenerationEnd(StrEnum):
    """Why a generation ended."""

    TOKEN = "end-token"
    STOP = "stop-sequence"
    LIMIT = "limit"
    CONTEXT = "context"


@dataclass(frozen=True)
class GenerationStep:
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


def collect(prompt: Sequence[int], steps: Iterable[GenerationStep], otherwise: GenerationEnd) -> LegacyGeneration:
    """Take all steps; `otherwise` is why there is none, if there is none."""
    taken = list(steps)
    last = taken[-1] if taken else GenerationStep(0, otherwise)
    new = [step.token for step in taken]
    return LegacyGeneration(tuple(prompt), tuple(new[: len(new) - last.trimmed]), last.end or otherwise)


def choose(row: Array, sampler: Sampler | None) -> int:
    """Return the sampler's choice from a row [depth], or the first largest without a sampler."""
    return int(np.argmax(row)) if sampler is None else sampler.choose(row)


def check_net(net: Net) -> int:
    """Return how many ids a net knows.

    Raises:
        LegacyError: it does not score the ids that it reads.
        LegacyError (several-future-tokens): it predicts more than the next token.
    """
    vocabulary, heads = language_model(net)
    if heads > 1:
        raise LegacyError("several-future-tokens", heads=heads)
    return vocabulary


def check_ids(prompt: Sequence[int], vocabulary: int) -> None:
    """Refuse prompts without ids, and ids that a net does not know.

    Raises:
        LegacyError (no-prompt-tokens, prompt-token-unknown): as the names say.
    """
    if not len(prompt):
        raise LegacyError("no-prompt-tokens")
    for position, token in enumerate(prompt):
        if not 0 <= token < vocabulary:
            raise LegacyError("prompt-token-unknown", position=position, token=token, vocabulary=vocabulary)


def whole_context(
    net: Net,
    arithmetic: Arithmetic,
    prompt: Sequence[int],
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> Iterator[GenerationStep]:
    """Return the steps that continue a prompt; what is wrong with it is told before the first one.

    Args:
        net: predicts the next token alone.
        arithmetic: of all forward passes, one a step.
        prompt: one id or more, at most as many as the context.
        sampler: chooses from a row; the first largest if left out.
        last_input: what the net read last, as many ids as the context; zeros, as in a fresh net, if left out.

    Raises:
        LegacyError (several-future-tokens): the net is not for this.
        LegacyError (no-prompt-tokens, prompt-token-unknown, prompt-overruns-context, last-input-length): the ids are
            not.
        NetError, LegacyError: from a step, if the net cannot be run or nothing can be chosen.
    """
    vocabulary = check_net(net)
    check_ids(prompt, vocabulary)
    if len(prompt) > net.context:
        raise LegacyError("prompt-overruns-context", tokens=len(prompt), context=net.context)
    tail = [0] * net.context if last_input is None else list(last_input)
    if len(tail) != net.context:
        raise LegacyError("last-input-length", tokens=len(tail), context=net.context)
    return _steps(net, arithmetic, list(prompt), sampler, tail)


def _steps(
    net: Net, arithmetic: Arithmetic, ids: list[int], sampler: Sampler | None, volume: list[int]
) -> Iterator[GenerationStep]:
    end: GenerationEnd | None = None
    while end is None:
        volume[: len(ids)] = ids
        ids.append(choose(net.output(arithmetic, [volume])[0, len(ids) - 1], sampler))
        if ids[-1] < FIRST_WORD:
            end = GenerationEnd.TOKEN
        elif len(ids) >= net.context:
            end = GenerationEnd.CONTEXT
        yield GenerationStep(ids[-1], end)


def generate_whole_context(
    net: Net,
    arithmetic: Arithmetic,
    prompt: Sequence[int],
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> LegacyGeneration:
    """Continue a prompt to its end; arguments and errors are those of `whole_context`."""
    return collect(prompt, whole_context(net, arithmetic, prompt, sampler, last_input), GenerationEnd.CONTEXT)


def generate_text(
    net: Net,
    arithmetic: Arithmetic,
    vocabulary: Vocabulary,
    prompt: bytes,
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> bytes:
    """Return a text with its continuation.

    The control byte of an id that ends a text is part of it; ids beyond the vocabulary add nothing. The prompt stands
    as it was given, even where the tokenizer reads it as something else.

    Raises:
        LegacyTokenizerError (reserved-byte): the text holds NUL or byte 29.
        NetError, LegacyError: as `whole_context`.
    """
    ids = encode(vocabulary, prompt)
    return prompt + decode(vocabulary, generate_whole_context(net, arithmetic, ids, sampler, last_input).new)


@dataclass(frozen=True)
class StreamLimits:
    """How far a generation goes: to the smaller of prompt + `new_tokens` and `total` tokens."""

    new_tokens: int
    total: int

    def reached(self, new_tokens: int, total: int) -> GenerationEnd | None:
        """Return which limit is reached, the first one if both are."""
        if new_tokens >= self.new_tokens:
            return GenerationEnd.LIMIT
        return GenerationEnd.CONTEXT if total >= self.total else None


@dataclass(frozen=True)
class StreamStops:
    """What else ends a generation.

    Attributes:
        sequences: ids that end it, and are taken away.
        end_tokens: ids that end it, and stay; those below 2 if left out.

    Raises:
        LegacyError (empty-stop-sequence): a sequence has no ids.
    """

    sequences: Sequence[Sequence[int]] = ()
    end_tokens: Collection[int] | None = None

    def __post_init__(self) -> None:
        for index, sequence in enumerate(self.sequences):
            if not len(sequence):
                raise LegacyError("empty-stop-sequence", index=index)

    def trimmed(self, new: Sequence[int]) -> int:
        """Return the length of the longest sequence with which the new tokens end, 0 without one."""
        newest = list(new)
        return max((len(each) for each in self.sequences if newest[-len(each) :] == list(each)), default=0)

    def ends(self, token: int) -> bool:
        """Whether a token ends a text."""
        return token < FIRST_WORD if self.end_tokens is None else token in self.end_tokens


ONLY_END_TOKENS: Final = StreamStops()
"""Ids below 2 end a text, and nothing else does."""


def streamed(
    session: NetSession,
    prompt: Sequence[int],
    limits: StreamLimits,
    stops: StreamStops = ONLY_END_TOKENS,
    sampler: Sampler | None = None,
) -> Iterator[GenerationStep]:
    """Return the steps that continue a prompt; what is wrong with it is told before the first one.

    Args:
        session: of a net that predicts the next token alone; what it remembers is forgotten.
        prompt: one id or more. One that leaves no room is not fed, and there are no steps.
        limits: how far.
        stops: what else ends it.
        sampler: chooses from a row; the first largest if left out.

    Raises:
        LegacyError (several-future-tokens): the net is not for this.
        LegacyError (no-prompt-tokens, prompt-token-unknown): the ids are not.
        NetError, LegacyError: from a step, if the net cannot be run or nothing can be chosen.
    """
    check_ids(prompt, check_net(session.net))
    return _streamed_steps(session, list(prompt), limits, stops, sampler)


def _streamed_steps(
    session: NetSession, ids: list[int], limits: StreamLimits, stops: StreamStops, sampler: Sampler | None
) -> Iterator[GenerationStep]:
    start = len(ids)
    if limits.reached(0, start):
        return
    session.reset()
    for position, token in enumerate(ids[:-1]):
        session.step([token], position)
    end: GenerationEnd | None = None
    while end is None:
        ids.append(choose(session.step([ids[-1]], len(ids) - 1)[-1][0], sampler))
        trimmed = stops.trimmed(ids[start:])
        if trimmed:
            end = GenerationEnd.STOP
        elif stops.ends(ids[-1]):
            end = GenerationEnd.TOKEN
        else:
            end = limits.reached(len(ids) - start, len(ids))
        yield GenerationStep(ids[-1], end, trimmed)


def generate_streamed(
    session: NetSession,
    prompt: Sequence[int],
    limits: StreamLimits,
    stops: StreamStops = ONLY_END_TOKENS,
    sampler: Sampler | None = None,
) -> LegacyGeneration:
    """Continue a prompt to its end; arguments and errors are those of `streamed`."""
    otherwise = limits.reached(0, len(prompt)) or GenerationEnd.LIMIT
    return collect(prompt, streamed(session, prompt, limits, stops, sampler), otherwise)
