"""What can go wrong before a chapter of the course is printed.

::

    SelectionError
    └── UnknownChapter     nothing is printed of that chapter
    InputError
    ├── CorpusNeeded       the chapter reads the course's corpus, which is not part of this package
    ├── CorpusNotRead      the chapter reads no corpus, and one was given
    └── FileNotText        the chapter is a file of bytes, which are not printed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_conformance.errors import InputError, SelectionError


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
