r"""From the bytes of a user's text file to stories.

A file that has a line `<|endoftext|>` is cut at those lines only, so that a story may have paragraphs; any other file
is cut at blank lines. The words themselves are not changed: no lower-casing, no filter, no removal of duplicates.

    read_stories(b"one.\r\n\r\ntwo.\r\n")                       →  ("one.", "two.")
    read_stories(b"one.\n\nstill one.\n<|endoftext|>\ntwo.\n")  →  ("one.\n\nstill one.", "two.")
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Final

from cai_conformance.stories.errors import (
    NoStories,
    StoriesByteOrderMark,
    StoriesNotUtf8,
    StoriesTooLarge,
    TooFewStories,
)
from cai_reference.text.corpus import WHITE_SPACE

MAXIMUM_STORY_BYTES: Final = 64 << 20
SEPARATOR: Final = "<|endoftext|>"


def read_stories(data: bytes, minimum: int = 1) -> tuple[str, ...]:
    """Return the stories of a text file in file order, without white space around them, line ends as LF.

    Arguments:
        data: the whole file, UTF-8 without a byte order mark, lines ended by LF or CR LF.
        minimum: how many stories the caller needs.

    Raises:
        StoriesTooLarge: more than `MAXIMUM_STORY_BYTES` bytes.
        StoriesByteOrderMark, StoriesNotUtf8: the encoding is another.
        NoStories: there is nothing but white space and separators.
        TooFewStories: there are fewer than `minimum`.
    """
    if len(data) > MAXIMUM_STORY_BYTES:
        raise StoriesTooLarge(len(data), MAXIMUM_STORY_BYTES)
    # All CR at the end of a line go: a file translated twice ends its lines in CR CR LF.
    stories = tuple(_stories([line.rstrip("\r") for line in _decoded(data).split("\n")]))
    if not stories:
        raise NoStories
    if len(stories) < minimum:
        raise TooFewStories(len(stories), minimum)
    return stories


def _decoded(data: bytes) -> str:
    if data.startswith(codecs.BOM_UTF8):
        raise StoriesByteOrderMark
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StoriesNotUtf8(error.start, error.reason) from None


def _stories(lines: Sequence[str]) -> Iterator[str]:
    bare = [line.strip(WHITE_SPACE) for line in lines]
    boundary = SEPARATOR if SEPARATOR in bare else ""
    start = 0
    for end in [*(number for number, line in enumerate(bare) if line == boundary), len(lines)]:
        story = "\n".join(lines[start:end]).strip(WHITE_SPACE)
        if story:
            yield story
        start = end + 1
