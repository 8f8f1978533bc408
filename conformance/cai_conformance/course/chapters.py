"""The chapters that there are, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_conformance.course import (
    chapter_32,
    chapter_33,
    chapter_34,
    chapter_36,
    chapter_37,
    chapter_38,
    chapter_39,
    small_decoder,
)
from cai_conformance.course.corpus import CourseCorpus
from cai_conformance.course.errors import CorpusNeeded, UnknownChapter
from cai_reference.arithmetic import Arithmetic

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
        UnknownChapter: with those that there are.
    """
    if number not in CHAPTERS:
        raise UnknownChapter(number, ", ".join(map(str, CHAPTERS)))
    return CHAPTERS[number]


def chapter_bytes(chapter: Chapter, arithmetic: Arithmetic, corpus: CourseCorpus | None = None) -> bytes:
    """Return what a chapter publishes, computed in an arithmetic.

    Raises:
        CorpusNeeded: the chapter reads a corpus, and none is given.
        FixtureError, CaiReferenceError: it cannot be computed from what the corpus holds.
    """
    if chapter.make is not None:
        return chapter.make(arithmetic)
    if corpus is None or chapter.make_from is None:
        raise CorpusNeeded(chapter.number, "--corpus and --splits")
    return chapter.make_from(arithmetic, corpus)
