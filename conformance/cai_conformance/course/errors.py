"""What can go wrong before a chapter of the course is printed, and what its caches refuse.

::

    SelectionError
    └── UnknownChapter     nothing is printed of that chapter
    InputError
    ├── CorpusNeeded       the chapter reads the course's corpus, which is not part of this package
    ├── CorpusNotRead      the chapter reads no corpus, and one was given
    └── FileNotText        the chapter is a file of bytes, which are not printed
    ConformanceError
    └── CacheRefused       a cache of chapters 37 to 39 does not take a call; evidence, which no command shows
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from cai_conformance.errors import ConformanceError, InputError, SelectionError


@dataclass(eq=False)
class UnknownChapter(SelectionError):
    """Nothing is printed of a chapter."""

    template: ClassVar[str] = "there is no chapter {number} here, only {known}"
    hint: ClassVar[str] = "cai-conform course"
    number: int
    known: str


@dataclass(eq=False)
class CorpusNeeded(InputError):
    """A chapter reads the course's corpus."""

    template: ClassVar[str] = (
        "chapter {number} trains on the course's corpus, which is not part of this package; it needs {missing}"
    )
    hint: ClassVar[str] = "cai-conform course {number} --corpus tiny-bilingual-corpus.json --splits splits.json"
    number: int
    missing: str


@dataclass(eq=False)
class CorpusNotRead(InputError):
    """A corpus was given to a chapter that reads none."""

    template: ClassVar[str] = "chapter {number} reads no corpus: {option} changes nothing"
    number: int
    option: str


@dataclass(eq=False)
class FileNotText(InputError):
    """A file of bytes would be printed."""

    template: ClassVar[str] = "chapter {number} is a file of bytes, which are not printed: --output says where they go"
    hint: ClassVar[str] = "cai-conform course {number} --output checkpoint.bin"
    number: int


class Refusal(StrEnum):
    """Why a cache of the course refuses a call."""

    TOKENS = "it takes one token a call"
    WIDTH = "it was made for another width"
    HEADS = "it was made for other heads"
    WEIGHTS = "it was made for other weights"
    ROPE = "it was made for another rotary base"
    POSITIONS = "it was made for another number of positions"
    FULL = "it is full"
    EMPTY = "a prompt comes first"
    FILLED = "it holds a prompt already"
    MODEL = "it was made for another model"
    CONFIGURATION = "it was made for another configuration"
    CHANGED = "the weights have changed since"


@dataclass(eq=False)
class CacheRefused(ConformanceError):
    """A cache of the course refuses a call, and is as it was before."""

    template: ClassVar[str] = "the cache refuses the call: {refusal}"
    refusal: str
