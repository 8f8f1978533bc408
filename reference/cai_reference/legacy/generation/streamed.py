"""Generation by a session that is fed one token at a time.

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

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cai_reference.legacy.generation.errors import EmptyStopSequence
from cai_reference.legacy.generation.steps import (
    FIRST_WORD,
    GenerationEnd,
    LegacyGeneration,
    Step,
    check_ids,
    check_net,
    choose,
    collect,
)
from cai_reference.legacy.sampling import Sampler
from cai_reference.nets.graph.session import NetSession


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
        EmptyStopSequence: a sequence has no ids.
    """

    sequences: Sequence[Sequence[int]] = ()
    end_tokens: Collection[int] | None = None

    def __post_init__(self) -> None:
        for index, sequence in enumerate(self.sequences):
            if not len(sequence):
                raise EmptyStopSequence(index)

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
) -> Iterator[Step]:
    """Return the steps that continue a prompt; what is wrong with it is told before the first one.

    Args:
        session: of a net that predicts the next token alone; what it remembers is forgotten.
        prompt: one id or more. One that leaves no room is not fed, and there are no steps.
        limits: how far.
        stops: what else ends it.
        sampler: chooses from a row; the first largest if left out.

    Raises:
        NotALanguageModel, SeveralFutureTokens: the net is not for this.
        NoPromptTokens, PromptTokenUnknown: the ids are not.
        NetError, LegacySamplingError: from a step, if the net cannot be run or nothing can be chosen.
    """
    check_ids(prompt, check_net(session.net))
    return _steps(session, list(prompt), limits, stops, sampler)


def _steps(
    session: NetSession, ids: list[int], limits: StreamLimits, stops: StreamStops, sampler: Sampler | None
) -> Iterator[Step]:
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
        yield Step(ids[-1], end, trimmed)


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
