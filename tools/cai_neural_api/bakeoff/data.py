"""What is trained on: rows of ids with the vocabulary that made them, from files or made here.

The rows of a file are filtered as the published program filters its own: the first 24,000 that are not empty and have
no id that the nets do not know. No more of the file is read than that takes.

Without files, stories are generated and coded by a vocabulary that the library's tokenizer fits to them. That
vocabulary is small, so that losses and texts do not compare with published ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from cai_conformance.fixtures.files import FilePath, read_file
from cai_conformance.fixtures.sizes import Sizes
from cai_conformance.fixtures.stories.generator import generate_stories
from cai_neural_api.errors import BakeOffError, LegacyError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer import Rows, Vocabulary, encode_lines, fit, parse_rows, usable_rows

LIMIT: Final = 24_000
"""So many rows are kept at most."""

FITTED_IDS: Final = 1_000
"""Ids at most of the vocabulary that is fitted to generated stories; merges run out long before."""


@dataclass(frozen=True)
class BakeData:
    """What a run trains on.

    Attributes:
        vocabulary: what made the ids.
        rows: those that are trained on.
        source: where they are from, in words.
        read, empty, too_large: rows that were read, and those of them without ids or with one that the nets do not
            know; what is read and neither of them nor kept is beyond the limit.
        comparable: whether losses may be held against published ones.
    """

    vocabulary: Vocabulary
    rows: Rows
    source: str
    read: int
    empty: int
    too_large: int
    comparable: bool

    @property
    def beyond(self) -> int:
        """How many usable rows were read that the limit left out."""
        return self.read - self.empty - self.too_large - len(self.rows)


def find_data(vocabulary: FilePath | None, rows: FilePath | None, sizes: Sizes, size: int, seed: int) -> BakeData:
    """Return the data of two files, or generated data where neither is given.

    Args:
        vocabulary: a file with a token a line, or None.
        rows: a file with a row of ids a line, or None.
        sizes: how many stories are generated, and from which seed.
        size: how many ids the nets know.
        seed: of the generator that breaks ties while a vocabulary is fitted.

    Raises:
        BakeOffError (data-incomplete): only one file is given.
        InputError (input-unreadable), BakeOffError (data-damaged, no-usable-row): a file cannot be used.
    """
    if vocabulary is None and rows is None:
        return generated_data(sizes, size, seed)
    if vocabulary is None:
        raise BakeOffError("data-incomplete", given="--rows", missing="--vocabulary")
    if rows is None:
        raise BakeOffError("data-incomplete", given="--vocabulary", missing="--rows")
    return read_data(vocabulary, rows, size)


def read_data(vocabulary: FilePath, rows: FilePath, size: int, limit: int = LIMIT) -> BakeData:
    """Read and filter the data of two files.

    Raises:
        InputError (input-unreadable): the operating system refuses.
        BakeOffError (data-damaged): a line is damaged, or the vocabulary has more than `size` ids.
        BakeOffError (no-usable-row): the filter leaves no row.
    """
    try:
        known = Vocabulary.parse(read_file(vocabulary), size)
    except LegacyError as error:
        raise BakeOffError("data-damaged", path=os.fspath(vocabulary), problem=str(error)) from error
    data = read_file(rows)
    try:
        read = _enough_rows(data, limit, size - 1)
    except LegacyError as error:
        raise BakeOffError("data-damaged", path=os.fspath(rows), problem=str(error)) from error
    found = _filtered(known, read, os.fspath(rows), limit, size - 1, comparable=True)
    if not found.rows:
        raise BakeOffError("no-usable-row", path=os.fspath(rows), rows=found.read, largest=size - 1)
    return found


def generated_data(sizes: Sizes, size: int, seed: int) -> BakeData:
    """Generate stories, fit the library's tokenizer to them, and code them."""
    stories = generate_stories(sizes.stories, sizes.story_seed)
    text = "".join(f"{story}\n" for story in stories).encode("utf-8")
    vocabulary = fit(text, min(size, FITTED_IDS), MersenneTwister(seed))
    source = f"{len(stories)} generated stories, vocabulary of {vocabulary.size} ids fitted to them"
    return _filtered(vocabulary, encode_lines(vocabulary, text), source, LIMIT, size - 1, comparable=False)


def _filtered(
    vocabulary: Vocabulary, rows: Rows, source: str, limit: int, largest: int, *, comparable: bool
) -> BakeData:
    kept = usable_rows(rows, limit, largest)
    empty = sum(not row for row in rows)
    too_large = sum(max(row) > largest for row in rows if row)
    return BakeData(vocabulary, kept, source, len(rows), empty, too_large, comparable)


def _enough_rows(data: bytes, limit: int, largest: int) -> Rows:
    """Parse the file from its start, until enough rows are usable or it ends."""
    lines = limit
    while True:
        parts = data.split(b"\n", lines)
        whole = len(parts) <= lines
        rows = parse_rows(data if whole else data[: len(data) - len(parts[-1])])
        if whole or len(usable_rows(rows, limit, largest)) == limit:
            return rows
        lines *= 2
