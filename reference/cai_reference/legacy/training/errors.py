"""What can go wrong in the library's training."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.legacy.errors import LegacyError


@dataclass(eq=False)
class LegacyTrainingError(LegacyError):
    """A net cannot be trained in the library's way."""


@dataclass(eq=False)
class NoStories(LegacyTrainingError):
    """There is nothing to draw a batch from, or nothing in it."""

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
class ScheduleTooSmall(LegacyTrainingError):
    """A number of a schedule, or of threads, with which nothing would be learned or validated."""

    template = "{name} is {value}; it must be at least {least}"
    name: str
    value: int
    least: int


@dataclass(eq=False)
class NotALanguageModel(LegacyTrainingError):
    """A net whose output is not a row of probabilities a token, for one future token or several."""


@dataclass(eq=False)
class NoEmbedding(NotALanguageModel):
    """A net that does not look ids up."""

    template = "no layer of the net embeds its input"


@dataclass(eq=False)
class EmbeddingElsewhere(NotALanguageModel):
    """An embedding of something that an earlier layer computed."""

    template = "layer {layer} embeds the output of layer {source}, not the net's input"
    layer: int
    source: int


@dataclass(eq=False)
class OutputDepth(NotALanguageModel):
    """An output that cannot be rows of one score an id."""

    template = "the net's output is {depth} deep, which is no multiple of the {vocabulary} ids of its embedding"
    depth: int
    vocabulary: int


@dataclass(eq=False)
class NoProbabilities(NotALanguageModel):
    """A net to train with another end than a softmax or several side by side."""

    template = "the net ends in layer {layer}, a {kind}: neither one softmax nor a concatenation of softmaxes alone"
    layer: int
    kind: str


@dataclass(eq=False)
class VocabularyMismatch(NotALanguageModel):
    """An embedding and a softmax, or two of a kind, over different vocabularies."""

    template = "layer {layer} knows {found} ids, but layer {other} knows {expected}"
    layer: int
    found: int
    other: int
    expected: int
