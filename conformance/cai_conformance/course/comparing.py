"""A published trace or file held against ours: the first place where they differ."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

FIELDS: Final = re.compile(r"[ |](?=[a-z_0-9]+=)")
"""What separates the fields of a line in either dialect: a space or a bar with a name behind it."""


@dataclass(frozen=True)
class Comparison:
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


def compared(expected: bytes, found: bytes, *, is_text: bool) -> Comparison:
    """Return the first difference: a line and its field in a text, an offset in a file of bytes."""
    if expected == found:
        return Comparison()
    return _lines(expected, found) if is_text else _bytes(expected, found)


def _lines(expected: bytes, found: bytes) -> Comparison:
    ours, theirs = (data.splitlines(keepends=True) for data in (expected, found))
    for number, (one, other) in enumerate(itertools.zip_longest(ours, theirs), 1):
        if one != other:
            field = _field(_shown(one), _shown(other))
            return Comparison(f"line {number}{f', field {field}' if field else ''}", _shown(one), _shown(other))
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


def _bytes(expected: bytes, found: bytes) -> Comparison:
    shared = min(len(expected), len(found))
    offset = next((place for place in range(shared) if expected[place] != found[place]), shared)
    return Comparison(f"byte {offset}", *(_byte(data, offset) for data in (expected, found)))


def _byte(data: bytes, offset: int) -> str:
    return f"{data[offset]:#04x}" if offset < len(data) else "nothing: the file ends before"
