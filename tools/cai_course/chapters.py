"""The chapters that there are, and how each is made.

A published trace or file held against ours: the first place where they differ.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_course import chapter_32, chapter_33, chapter_34, chapter_36, chapter_37, chapter_38, chapter_39, small_decoder
from cai_course.chapter_39 import CourseCorpus
from cai_course.errors import CourseError
from cai_reference.arithmetic import Arithmetic

FIELDS: Final = re.compile(r"[ |](?=[a-z_0-9]+=)")
"""What separates the fields of a line in either dialect: a space or a bar with a name behind it."""


@dataclass(frozen=True)
class ChapterComparison:
    """The first difference; empty where both are equal byte for byte.

    Attributes:
        place: where it is, in words.
        expected: what we compute there.
        found: what the file has there.
    """

    place: str = ""
    expected: str = ""
    found: str = ""

    @property
    def equal(self) -> bool:
        """Whether there is none."""
        return not self.place


def compared(expected: bytes, found: bytes, *, is_text: bool) -> ChapterComparison:
    """Return the first difference: a line and its field in a text, an offset in a file of bytes."""
    if expected == found:
        return ChapterComparison()
    return _lines(expected, found) if is_text else _bytes(expected, found)


def _lines(expected: bytes, found: bytes) -> ChapterComparison:
    ours, theirs = (data.splitlines(keepends=True) for data in (expected, found))
    for number, (one, other) in enumerate(itertools.zip_longest(ours, theirs), 1):
        if one != other:
            field = _field(_shown(one), _shown(other))
            return ChapterComparison(f"line {number}{f', field {field}' if field else ''}", _shown(one), _shown(other))
    raise AssertionError("unequal texts have an unequal line")


def _shown(line: bytes | None) -> str:
    """Return a line as text; its end is shown only where it is not a plain LF."""
    if line is None:
        return "nothing: the text ends before"
    text = line.decode("utf-8", "backslashreplace")
    if text.endswith("\r\n"):
        return f"{text[:-2]}\\r\\n"
    return text[:-1] if text.endswith("\n") else f"{text} without a line feed"


def _field(expected: str, found: str) -> str:
    """Return the name of the first field that differs, where both lines are of one kind."""
    ours, theirs = FIELDS.split(expected), FIELDS.split(found)
    for one, other in zip(ours, theirs, strict=False):
        name, equals, _ = one.partition("=")
        if one != other:
            return name if equals and other.startswith(f"{name}=") else ""
    return ""


def _bytes(expected: bytes, found: bytes) -> ChapterComparison:
    shared = min(len(expected), len(found))
    offset = next((place for place in range(shared) if expected[place] != found[place]), shared)
    return ChapterComparison(f"byte {offset}", *(_byte(data, offset) for data in (expected, found)))


def _byte(data: bytes, offset: int) -> str:
    return f"{data[offset]:#04x}" if offset < len(data) else "nothing: the file ends before"


FromNothing: TypeAlias = Callable[[Arithmetic], bytes]
FromCorpus: TypeAlias = Callable[[Arithmetic, CourseCorpus], bytes]


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        number: the course's.
        title: what it is about, in a few words.
        make: gives its bytes; exactly one of this and `make_from` is there.
        make_from: gives them from the course's corpus.
        is_text: whether they are lines.
    """

    number: int
    title: str
    make: FromNothing | None = None
    make_from: FromCorpus | None = None
    is_text: bool = True

    @property
    def needs_corpus(self) -> bool:
        """Whether the course's corpus has to be given."""
        return self.make_from is not None


CHAPTERS: Final[Mapping[int, Chapter]] = {
    chapter.number: chapter
    for chapter in (
        Chapter(32, "the decoder, stage by stage, with one table in two roles", chapter_32.trace),
        Chapter(33, "training, clipping, a schedule, selection by validation loss", chapter_33.trace),
        Chapter(34, "one evaluation on test windows, beside a bigram", chapter_34.trace),
        Chapter(35, "the checkpoint file of the selected model", small_decoder.checkpoint_bytes, is_text=False),
        Chapter(36, "temperature, top-k, draws, generation from the checkpoint", chapter_36.trace),
        Chapter(37, "one attention layer with a cache", chapter_37.trace),
        Chapter(38, "the whole model with a cache, generation from the checkpoint", chapter_38.trace),
        Chapter(39, "from a corpus to a text, in one run", make_from=chapter_39.trace),
    )
}


def find_chapter(number: int) -> Chapter:
    """Return a chapter.

    Raises:
        CourseError (unknown-chapter): with those that there are.
    """
    if number not in CHAPTERS:
        raise CourseError("unknown-chapter", number=number, known=", ".join(map(str, CHAPTERS)))
    return CHAPTERS[number]


def chapter_bytes(chapter: Chapter, arithmetic: Arithmetic, corpus: CourseCorpus | None = None) -> bytes:
    """Return what a chapter publishes, computed in an arithmetic.

    Raises:
        InputError (corpus-needed): the chapter reads a corpus, and none is given.
        FixtureError, CaiReferenceError: it cannot be computed from what the corpus holds.
    """
    if chapter.make is not None:
        return chapter.make(arithmetic)
    if corpus is None or chapter.make_from is None:
        raise CourseError("corpus-needed", number=chapter.number, missing="--corpus and --splits")
    return chapter.make_from(arithmetic, corpus)
