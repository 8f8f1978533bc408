"""From bytes to lines: encoding, forbidden characters, line ends, sizes, and whether the file is complete.

What a line holds is not looked at, except to name the record in which a fault stands.
"""

from __future__ import annotations

import re

from cai_conformance.trace.errors import (
    BlankLine,
    CutOff,
    ForbiddenCharacter,
    NotUtf8,
    TooLarge,
    TraceFault,
    TrailingSpace,
)
from cai_conformance.trace.reading import label_of

LINE_LIMIT = 16 * 2**20
FILE_LIMIT = 2**30

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x0A})
_FORBIDDEN = re.compile(b"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_HIGH_CONTROL = re.compile(b"\xc2[\x80-\x9f]")


def lines_of(data: bytes | str, *, line_limit: int = LINE_LIMIT, file_limit: int = FILE_LIMIT) -> list[str]:
    """The lines of a complete text, without their LF.

    Raises TooLarge, ForbiddenCharacter, NotUtf8, CutOff (the text is empty, or its last line has no LF), BlankLine or
    TrailingSpace.
    """
    if isinstance(data, str):
        # A lone surrogate becomes bytes that are no UTF-8, and is found as such.
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > file_limit:
        raise TooLarge(0, "", "", len(data), file_limit)
    if data.startswith(BYTE_ORDER_MARK):
        raise ForbiddenCharacter(1, "", "", 1, "the byte order mark")
    text = decoded(data)
    fault = forbidden_in(data)
    if fault is None and not text.endswith("\n"):
        fault = _cut_off(text)
    if fault is not None:
        raise fault
    fault = blank_in(text) or trailing_space_in(text)
    if fault is not None:
        raise fault
    lines = text[:-1].split("\n")
    fault = overlong_in(lines, line_limit)
    if fault is not None:
        raise fault
    return lines


def decoded(data: bytes) -> str:
    """The text of some bytes; NotUtf8, or CutOff where they end within a character."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        if fault.reason == "unexpected end of data":  # the file was cut within a character
            raise _cut_off(data[: fault.start].decode("utf-8")) from None
        line, column, label, field = _place(data, fault.start)
        raise NotUtf8(line, label, field, column) from None


def forbidden_in(data: bytes) -> TraceFault | None:
    """The first character of some lines that no trace holds."""
    # Deleting is ten times faster than searching, and nearly always enough.
    if len(data.translate(None, _CONTROLS)) == len(data) and not (b"\xc2" in data and _HIGH_CONTROL.search(data)):
        return None
    found = _FORBIDDEN.search(data)
    assert found is not None
    return _forbidden_at(data, found.start())


def blank_in(text: str) -> TraceFault | None:
    """The first line of some that has no characters."""
    if not (text.startswith("\n") or "\n\n" in text):
        return None
    lines = text.split("\n")
    blank = lines.index("")
    return BlankLine(blank + 1, label_of(lines[blank - 1]) if blank else "", "")


def trailing_space_in(text: str) -> TraceFault | None:
    """The first line of some that ends with a space."""
    if " \n" not in text:
        return None
    number, line = next((number, line) for number, line in enumerate(text.split("\n"), 1) if line.endswith(" "))
    return TrailingSpace(number, label_of(line), shown_field(line.rpartition("|")[2].partition("=")[0]))


def overlong_in(lines: list[str], limit: int) -> TraceFault | None:
    """The first of some lines that is beyond the limit."""
    for number, line in enumerate(lines, 1):
        # A character has at most four bytes.
        if len(line) * 4 > limit and (size := len(line.encode("utf-8"))) > limit:
            return TooLarge(number, label_of(line[:4096]), "", size, limit)
    return None


def _forbidden_at(data: bytes, offset: int) -> TraceFault:
    line, column, label, field = _place(data, offset)
    code = data[offset] if data[offset] != 0xC2 else data[offset + 1]
    name = {0: "NUL", 9: "a tab", 13: "a carriage return (lines end with LF alone)"}.get(code, "a control character")
    return ForbiddenCharacter(line, label, field, column, f"U+{code:04X}, {name},")


def _place(data: bytes, offset: int) -> tuple[int, int, str, str]:
    """The line and column of a byte, counted from 1, and the record and field in which it stands, where they show."""
    start = data.rfind(b"\n", 0, offset) + 1
    end = data.find(b"\n", offset)
    line = data[start : end if end >= 0 else len(data)]
    label = label_of(line[:4096].decode("utf-8", "replace"))
    name, equals, _ = data[start:offset].rpartition(b"|")[2].partition(b"=")
    field = name.decode("ascii", "replace") if equals and re.fullmatch(b"[a-z][a-z0-9_]{0,60}", name) else ""
    return data.count(b"\n", 0, offset) + 1, offset - start + 1, label, field


def _cut_off(text: str) -> CutOff:
    complete = text[: text.rfind("\n") + 1]
    last = complete.rstrip("\n").rpartition("\n")[2]
    return cut_off_after(complete.count("\n"), last, empty=not text)


def cut_off_after(lines: int, last: str, *, empty: bool = False) -> CutOff:
    """The fault of a text that ends within a line, behind so many whole ones, of which `last` is not blank."""
    return CutOff(lines, label_of(last), "", "the file is empty" if empty else "the last line has no line feed")


def shown_field(name: str) -> str:
    """A name for a message: empty unless it looks like a field name."""
    return name if re.fullmatch("[a-z][a-z0-9_]{0,60}", name) else ""
