"""What can go wrong in the library's training."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.legacy.errors import LegacyError


@dataclass(eq=False)
class LegacyTrainingError(LegacyError):
    """A net cannot be trained in the library's way."""


@dataclass(eq=False)
class NoStories(LegacyTrainingError):
    """There is nothing to draw a batch from."""

    template = "there is no story to train on"


@dataclass(eq=False)
class EmptyStory(LegacyTrainingError):
    """A story without ids, which the library's row filter would have left out."""

    template = "story {story} has no ids"
    story: int


@dataclass(eq=False)
class StoryTokenOutOfRange(LegacyTrainingError):
    """An id for which the net has no output."""

    template = "story {story}, position {position}: id {token} is not among the net's {vocabulary}"
    story: int
    position: int
    token: int
    vocabulary: int


@dataclass(eq=False)
class NotALanguageModel(LegacyTrainingError):
    """A net whose output is not a row of probabilities a token, for one future token or several."""

    template = "the net's output is {depth} deep, which is no multiple of the {vocabulary} ids of its embedding"
    depth: int
    vocabulary: int
