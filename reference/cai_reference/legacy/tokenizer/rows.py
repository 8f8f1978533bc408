r"""Rows of token ids in a CSV file: a row a line, plain decimal ids between commas; an empty line is an empty row.

    parse_rows(b"72,128\n\n5\n")  →  ((72, 128), (), (5,))

Source: CAI NEURAL API, tokenised files and the data of its decoding experiments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

from cai_reference.legacy.tokenizer.errors import IdTooLarge, InvalidRowFilter, NegativeId, NotAnId
from cai_reference.legacy.tokenizer.lines import intact_lines

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
        ByteOrderMark, NulByte, CarriageReturn, UnfinishedLine: a line is damaged.
        NotAnId, NegativeId, IdTooLarge: a field holds no id.
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
        raise NotAnId(line, field, shown)
    # Python refuses to read very long numbers.
    if len(text) > SHOWN:
        raise IdTooLarge(line, field, shown, largest)
    token = int(text)
    if token < 0:
        raise NegativeId(line, field, token)
    if token > largest:
        raise IdTooLarge(line, field, shown, largest)
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
        InvalidRowFilter: the limit is below 1, or the largest id below 0.
    """
    if limit < 1 or largest < 0:
        raise InvalidRowFilter(limit, largest)
    return tuple(islice((row for row in rows if row and max(row) <= largest), limit))
