"""Lines of texts, which may end in many ways, and lines of the tokenizer's own files, which end in one."""

from __future__ import annotations

import re
from typing import Final

from cai_reference.legacy.tokenizer.errors import (
    ByteOrderMark,
    CarriageReturn,
    NulByte,
    ReservedByte,
    UnfinishedLine,
)

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
        ByteOrderMark, NulByte, CarriageReturn, UnfinishedLine: with the first line that is damaged in that way.
    """
    if data.startswith(BYTE_ORDER_MARK):
        raise ByteOrderMark(1)
    if b"\0" in data:
        raise NulByte(line_at(data, data.index(b"\0")))
    if b"\r" in data:
        raise CarriageReturn(line_at(data, data.index(b"\r")))
    lines = data.split(b"\n")
    if lines.pop():
        raise UnfinishedLine(len(lines) + 1)
    return lines


def refuse_bytes(text: bytes, reserved: bytes) -> None:
    """Refuse a text that holds one of these bytes.

    Raises:
        ReservedByte: with the first that occurs.
    """
    found = re.search(b"[" + re.escape(reserved) + b"]", text)
    if found:
        raise ReservedByte(line_at(text, found.start()), found[0][0])


def line_at(text: bytes, position: int) -> int:
    """Return the number of the line, from 1, in which a byte stands."""
    return len(LINE_END.findall(text, 0, position)) + 1
