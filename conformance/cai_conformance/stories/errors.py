"""What can go wrong with stories: a file that cannot be read as stories, a split with an empty side, a negative count.

::

    InputError
    └── StoryError
        ├── NegativeStoryCount        the generator was asked for fewer than no stories
        ├── StoriesTooLarge           a file beyond the limit
        ├── StoriesNotUtf8            a byte that is not UTF-8
        ├── StoriesByteOrderMark      a file that opens with a byte order mark
        ├── NoStories                 nothing but white space and separators
        ├── TooFewStories             fewer than the caller needs
        ├── InvalidValidationStep     a step that leaves nothing to train on
        ├── EmptyValidation           fewer stories than one validation step
        └── EmptyTraining             every training story is also a validation story
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_conformance.errors import InputError


@dataclass(eq=False)
class StoryError(InputError):
    """Stories cannot be made, read or split."""


@dataclass(eq=False)
class NegativeStoryCount(StoryError):
    """The generator was asked for fewer than no stories."""

    template: ClassVar[str] = "{count} stories cannot be generated: the number must not be negative"
    count: int


# ── the file of a user ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class StoriesTooLarge(StoryError):
    """The file is beyond the limit; everything is held in memory. Sizes in bytes."""

    template: ClassVar[str] = "the story file holds {size} bytes; the limit is {limit}"
    hint: ClassVar[str] = "give a file of at most {limit} bytes"
    size: int
    limit: int


@dataclass(eq=False)
class StoriesNotUtf8(StoryError):
    """A byte is not UTF-8. `position` counts bytes from 0."""

    template: ClassVar[str] = "the story file is not UTF-8: {problem} at byte {position}"
    hint: ClassVar[str] = "save the file as UTF-8 without a byte order mark"
    position: int
    problem: str


@dataclass(eq=False)
class StoriesByteOrderMark(StoryError):
    """The file opens with a byte order mark, which would become a token of the first story."""

    template: ClassVar[str] = "the story file opens with a byte order mark"
    hint: ClassVar[str] = "save the file as UTF-8 without a byte order mark"


@dataclass(eq=False)
class NoStories(StoryError):
    """The file holds nothing but white space and separators."""

    template: ClassVar[str] = "the story file has no stories"
    hint: ClassVar[str] = "separate stories by blank lines, or by lines <|endoftext|>"


@dataclass(eq=False)
class TooFewStories(StoryError):
    """The file holds fewer stories than the caller needs."""

    template: ClassVar[str] = "the number of stories in the file is {found}; at least {minimum} are needed"
    hint: ClassVar[str] = "separate stories by blank lines, or by lines <|endoftext|>"
    found: int
    minimum: int


# ── the split ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class InvalidValidationStep(StoryError):
    """A step of 1 leaves nothing to train on, and a smaller one has no meaning."""

    template: ClassVar[str] = "a validation step of {validation_every} leaves nothing to train on: it must be 2 or more"
    validation_every: int


@dataclass(eq=False)
class EmptyValidation(StoryError):
    """There are fewer stories than one validation step."""

    template: ClassVar[str] = "a validation step of {validation_every} leaves none of {count} stories for validation"
    count: int
    validation_every: int


@dataclass(eq=False)
class EmptyTraining(StoryError):
    """Every story left for training has the text of a validation story."""

    template: ClassVar[str] = (
        "a validation step of {validation_every} leaves none of {count} stories for training: "
        "all repeat validation stories"
    )
    count: int
    validation_every: int
