"""Errors of generation: prompts and settings with which the library would read past an array, or what nobody meant."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.legacy.errors import LegacyError


class LegacyGenerationError(LegacyError):
    """A prompt cannot be continued."""


@dataclass(eq=False)
class NoPromptTokens(LegacyGenerationError):
    """There is no row behind the last token of an empty prompt."""

    template = "a prompt without tokens cannot be continued"


@dataclass(eq=False)
class PromptTokenUnknown(LegacyGenerationError):
    """A prompt holds an id for which the net has no row."""

    template = "position {position} of the prompt: id {token} is not among the {vocabulary} of the net"
    position: int
    token: int
    vocabulary: int


@dataclass(eq=False)
class PromptOverrunsContext(LegacyGenerationError):
    """The library would write behind the end of its input."""

    template = "a prompt of {tokens} tokens overruns the context of {context}"
    tokens: int
    context: int


@dataclass(eq=False)
class LastInputLength(LegacyGenerationError):
    """What the net read last does not fill its context."""

    template = "the last input of the net has {tokens} tokens; its context has {context}"
    tokens: int
    context: int


@dataclass(eq=False)
class SeveralFutureTokens(LegacyGenerationError):
    """The library would choose over the rows of all heads at once, so that most ids would be none."""

    template = "the net predicts {heads} future tokens side by side; only nets that predict one are continued this way"
    heads: int


@dataclass(eq=False)
class EmptyStopSequence(LegacyGenerationError):
    """A stop sequence without ids would end every generation."""

    template = "stop sequence {index} is empty"
    index: int
