"""Lines of the course's published traces: kinds, fields, numbers.

A line is a kind and its `name=value` fields. Two things differ between chapters:

===========  =====================================================================================================
separator    a space, with kinds in small letters (chapter 32), or a bar (chapters 33 to 39)
last line    a kind of its own, `END_…` (chapters 32 to 34), or `END` with the name of what comes next (36 to 39)
===========  =====================================================================================================

Decimals are the exact binary value rounded half to even. A zero keeps its sign unless a chapter takes it off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from cai_conformance.trace.format import format_real

Value: TypeAlias = str | int
"""What a field holds: text that is ready, an integer, or a boolean."""

ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
"""What a quoted text spells in another way; whatever else cannot be printed becomes a number."""


class Separator(StrEnum):
    """What stands between the fields of a line."""

    SPACE = " "
    BAR = "|"


@dataclass(frozen=True)
class CourseRecord:
    """One line: its kind, and its fields in order."""

    kind: str
    fields: tuple[tuple[str, str], ...]


def record(kind: str, /, **fields: Value) -> CourseRecord:
    """Return a record; booleans become `true` and `false`."""
    return CourseRecord(kind, tuple((name, _text(value)) for name, value in fields.items()))


def trace_bytes(separator: Separator, records: Iterable[CourseRecord]) -> bytes:
    """Return the lines in UTF-8, each with its LF."""
    lines = (separator.join((one.kind, *(f"{name}={text}" for name, text in one.fields))) for one in records)
    return "".join(f"{line}\n" for line in lines).encode()


def fixed(value: float, digits: int) -> str:
    """Return a number with so many decimals; the sign of what rounds to zero stays."""
    return format_real(value, digits, negative_zero=True)


def fixed_list(values: Iterable[float], digits: int) -> str:
    """Return numbers with so many decimals in brackets."""
    return bracketed(fixed(value, digits) for value in values)


def unsigned_list(values: Iterable[float], digits: int) -> str:
    """Return numbers in brackets, those that are −0.0 printed as +0.0 (chapters 37 and 38)."""
    return fixed_list((value + 0.0 for value in values), digits)


def bracketed(items: Iterable[Value]) -> str:
    """Return `[a,b,c]`."""
    return f"[{joined(items)}]"


def joined(items: Iterable[Value]) -> str:
    """Return `a,b,c`."""
    return ",".join(map(_text, items))


def word(state: int) -> str:
    """Return 64 bits as `0x` and sixteen hexadecimal digits."""
    return f"0x{state:016x}"


def hash_text(value: int) -> str:
    """Return an FNV-1a hash as `fnv1a64:` and sixteen hexadecimal digits."""
    return f"fnv1a64:{value:016x}"


def quoted(text: str) -> str:
    """Return text in quotation marks, escaped as Rust prints it for debugging."""
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
