r"""The vocabulary of the legacy tokenizer: one token a line, and two orders in which a token is found.

Ids 0–127 are single bytes; line i of the file, counted from 0, has id 128 + i. The library keeps the lines in a list
that it sorts without regard to letter case. A whole word gets its id by its place in that sorted list, a part of a word
by its line in the file: the two differ where the file is not sorted. Source: CAI NEURAL API, tokenizer.

    Vocabulary.parse(b"the\nan\n").ids_of_words  →  {b"an": 128, b"the": 129}
    Vocabulary.parse(b"the\nan\n").ids_of_parts  →  {b"the": 128, b"an": 129}

Lines of texts, which may end in many ways, and lines of the tokenizer's own files, which end in one.

Rows of token ids in a CSV file: a row a line, plain decimal ids between commas; an empty line is an empty row.

    parse_rows(b"72,128\n\n5\n")  →  ((72, 128), (), (5,))

Source: CAI NEURAL API, tokenised files and the data of its decoding experiments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, TypeAlias

from cai_neural_api.errors import LegacyTokenizerError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer.ranking import random_pivot_sort

LINE_END: Final = re.compile(rb"\r\n|\n|\r")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of a text, ended by LF, CR LF or CR; the end of the last may be missing."""
    lines = LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def intact_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file that the tokenizer wrote: plain text, each line ended by LF.

    Raises:
        LegacyTokenizerError (byte-order-mark, nul-byte, carriage-return, unfinished-line): with the first line that is
            damaged in that way.
    """
    if data.startswith(BYTE_ORDER_MARK):
        raise LegacyTokenizerError("byte-order-mark", line=1)
    if b"\0" in data:
        raise LegacyTokenizerError("nul-byte", line=line_at(data, data.index(b"\0")))
    if b"\r" in data:
        raise LegacyTokenizerError("carriage-return", line=line_at(data, data.index(b"\r")))
    lines = data.split(b"\n")
    if lines.pop():
        raise LegacyTokenizerError("unfinished-line", line=len(lines) + 1)
    return lines


def refuse_bytes(text: bytes, reserved: bytes) -> None:
    """Refuse a text that holds one of these bytes.

    Raises:
        LegacyTokenizerError (reserved-byte): with the first that occurs.
    """
    found = re.search(b"[" + re.escape(reserved) + b"]", text)
    if found:
        raise LegacyTokenizerError("reserved-byte", line=line_at(text, found.start()), byte=found[0][0])


def line_at(text: bytes, position: int) -> int:
    """Return the number of the line, from 1, in which a byte stands."""
    return len(LINE_END.findall(text, 0, position)) + 1


SINGLE_BYTES: Final = 128
"""The ids below this one are bytes."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens beside single bytes, in the order of the file.

    Attributes:
        entries: the tokens; entry i has id 128 + i. None is empty, none holds a line end, and no two are equal without
            regard to ASCII letter case.
    """

    entries: tuple[bytes, ...]

    @classmethod
    def parse(cls, data: bytes, size: int | None = None) -> Vocabulary:
        """Read the bytes of a vocabulary file.

        Any order, any bytes but NUL and line ends, and no lines at all are accepted, as the library accepts them. It
        also accepts empty and repeated lines, but then what it answers depends on chance; those are refused.

        Arguments:
            data: the whole file.
            size: how many ids there may be at most, single bytes included; any number if left out.

        Raises:
            LegacyTokenizerError (byte-order-mark, nul-byte, carriage-return, unfinished-line): a line is damaged.
            LegacyTokenizerError (empty-entry, repeated-entry, too-many-entries): a line cannot be an entry.
        """
        entries = intact_lines(data)
        first: dict[bytes, int] = {}
        for number, entry in enumerate(entries, 1):
            if not entry:
                raise LegacyTokenizerError("empty-entry", line=number)
            earlier = first.setdefault(entry.lower(), number)
            if earlier != number:
                raise LegacyTokenizerError("repeated-entry", line=number, first=earlier)
            if size is not None and SINGLE_BYTES + number > size:
                raise LegacyTokenizerError(
                    "too-many-entries", line=number, token_id=SINGLE_BYTES + number - 1, size=size
                )
        return cls(tuple(entries))

    def format(self) -> bytes:
        """Return the bytes of the vocabulary file."""
        return b"".join(entry + b"\n" for entry in self.entries)

    @property
    def size(self) -> int:
        """How many ids there are, single bytes included."""
        return SINGLE_BYTES + len(self.entries)

    @cached_property
    def ids_of_words(self) -> Mapping[bytes, int]:
        """The id that a whole word gets, by its lower case: its place in the sorted list."""
        return {word: SINGLE_BYTES + place for place, word in enumerate(sorted(map(bytes.lower, self.entries)))}

    @cached_property
    def ids_of_parts(self) -> Mapping[bytes, int]:
        """The id that a part of a word gets, by its lower case: its line in the file."""
        return {entry.lower(): SINGLE_BYTES + line for line, entry in enumerate(self.entries)}

    def replay_loading(self, generator: MersenneTwister) -> None:
        """Draw what the library draws while it loads this vocabulary: it sorts the list, and then once more.

        A program that seeds the generator, loads its vocabulary and then makes its nets has other initial weights than
        one that loads nothing.
        """
        places = [self.ids_of_words[entry.lower()] for entry in self.entries]
        for _ in range(2):
            random_pivot_sort(places, lambda one, other: one > other, generator)


Row: TypeAlias = tuple[int, ...]
Rows: TypeAlias = tuple[Row, ...]

LARGEST_ID: Final = (1 << 31) - 1
"""The library's integers have 32 bits with a sign."""

ID: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)")
PLAIN_ROW: Final = re.compile(rb"(?:(?:0|[1-9][0-9]{0,8}),)*(?:0|[1-9][0-9]{0,8})")
"""Ids of up to nine digits, which fit into 32 bits."""

SHOWN: Final = 40
"""So much of a field that is no id is told."""


def parse_rows(data: bytes, size: int | None = None) -> Rows:
    """Read the bytes of a CSV file.

    Arguments:
        data: the whole file.
        size: how many ids the vocabulary has; any id is accepted if left out.

    Raises:
        LegacyTokenizerError (byte-order-mark, nul-byte, carriage-return, unfinished-line): a line is damaged.
        LegacyTokenizerError (not-an-id, negative-id, id-too-large): a field holds no id.
    """
    largest = LARGEST_ID if size is None else size - 1
    return tuple(_row(line, number, largest) for number, line in enumerate(intact_lines(data), 1))


def _row(line: bytes, number: int, largest: int) -> Row:
    if not line:
        return ()
    if PLAIN_ROW.fullmatch(line):
        row = tuple(map(int, line.split(b",")))
        if max(row) <= largest:
            return row
    return tuple(_id(text, number, field, largest) for field, text in enumerate(line.split(b","), 1))


def _id(text: bytes, line: int, field: int, largest: int) -> int:
    shown = text[:SHOWN].decode("ascii", "backslashreplace") + ("…" if len(text) > SHOWN else "")
    # "-0" has the form of an id, but is not how one is written.
    if not ID.fullmatch(text) or text == b"-0":
        raise LegacyTokenizerError("not-an-id", line=line, field=field, text=shown)
    # Python refuses to read very long numbers.
    if len(text) > SHOWN:
        raise LegacyTokenizerError("id-too-large", line=line, field=field, text=shown, largest=largest)
    token = int(text)
    if token < 0:
        raise LegacyTokenizerError("negative-id", line=line, field=field, token_id=token)
    if token > largest:
        raise LegacyTokenizerError("id-too-large", line=line, field=field, text=shown, largest=largest)
    return token


def format_rows(rows: Iterable[Iterable[int]]) -> bytes:
    """Return the bytes of the CSV file that holds these rows."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode("ascii")


def usable_rows(rows: Iterable[Row], limit: int = 24_000, largest: int = 2_999) -> Rows:
    """Return the rows that the decoding experiments train on: the first `limit` that are not empty and whose ids fit.

    Arguments:
        rows: the rows of a file, in its order.
        limit: how many are kept at most.
        largest: a row with an id above this one is left out.

    Raises:
        LegacyTokenizerError (invalid-row-filter): the limit is below 1, or the largest id below 0.
    """
    if limit < 1 or largest < 0:
        raise LegacyTokenizerError("invalid-row-filter", limit=limit, largest=largest)
    return tuple(islice((row for row in rows if row and max(row) <= largest), limit))
