"""The types that a field can have, and which texts are values of them.

A check sees the text as it stands in the line. It is a matter of form only: whether a number is the right number is
for a judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from cai_conformance.trace.format import unescape


class FieldType(StrEnum):
    """What a field holds."""

    INTEGER = "integer"
    INTEGERS = "integers"
    REAL6 = "real6"
    REAL9 = "real9"
    REALS6 = "reals6"
    BITS = "bits"
    BITS_LIST = "bits-list"
    STRING = "string"
    WORD = "word"
    SHA256 = "sha256"
    DIGEST = "digest"

    @property
    def is_list(self) -> bool:
        """Whether values are written `[a, b, c]`."""
        return self in (FieldType.INTEGERS, FieldType.REALS6, FieldType.BITS_LIST)

    @property
    def is_real(self) -> bool:
        """Whether values are reals in decimal digits."""
        return self in (FieldType.REAL6, FieldType.REAL9, FieldType.REALS6)

    @property
    def is_bits(self) -> bool:
        """Whether values are exact doubles."""
        return self in (FieldType.BITS, FieldType.BITS_LIST)


SMALLEST_INTEGER: Final = -(2**63)
LARGEST_INTEGER: Final = 2**64 - 1

MEANINGS = {
    FieldType.INTEGER: "an integer from -2^63 to 2^64-1 in plain digits",
    FieldType.INTEGERS: "a list of integers, [1, 2, 3]",
    FieldType.REAL6: "a real with six decimals",
    FieldType.REAL9: "a real with nine decimals",
    FieldType.REALS6: "a list of reals with six decimals, [0.500000, nan]",
    FieldType.BITS: "sixteen lower-case hexadecimal digits",
    FieldType.BITS_LIST: "a list of sixteen-digit bits",
    FieldType.STRING: "a string escaped as the grammar says",
    FieldType.WORD: "a word of a-z, 0-9, underscore, dot and hyphen",
    FieldType.SHA256: "sha256: and 64 lower-case hexadecimal digits",
    FieldType.DIGEST: "fnv1a64: or sha256: and lower-case hexadecimal digits",
}
"""What a value of each type looks like, in words."""

_LONG = re.compile("[0-9]{19}")
_DIGITS = re.compile("-?[0-9]++")

Check = Callable[[str], object]
"""Truthy where the text, as it stands in the line, is a value."""


def check_of(kind: FieldType, *, negative_zero: bool = False, words: tuple[str, ...] = ()) -> Check:
    """The check for a type; `words`, if there are any, are the only values allowed."""
    if words:
        return frozenset(words).__contains__
    if kind is FieldType.STRING:
        return _is_string
    pattern = re.compile(_pattern(kind, negative_zero, integer="(?:0|-?[1-9][0-9]{0,19}+)"))
    if kind in (FieldType.INTEGER, FieldType.INTEGERS):
        return lambda text: pattern.fullmatch(text) and (len(text) < 19 or _in_range(text))
    return pattern.fullmatch


def usual_pattern(kind: FieldType, *, negative_zero: bool = False, words: tuple[str, ...] = ()) -> str:
    """A pattern that matches only values, and of them all but integers of 19 digits and strings with escapes."""
    if words:
        return "|".join(map(re.escape, words))
    return _pattern(kind, negative_zero, integer="(?:0|-?[1-9][0-9]{0,17}+)")


def _pattern(kind: FieldType, negative_zero: bool, *, integer: str) -> str:
    """The pattern of a type; `integer` is that of one integer."""
    bits = "[0-9a-f]{16}"
    return {
        FieldType.INTEGER: integer,
        FieldType.INTEGERS: _list(integer),
        FieldType.REAL6: _real(6, negative_zero),
        FieldType.REAL9: _real(9, negative_zero),
        FieldType.REALS6: _list(_real(6, negative_zero)),
        FieldType.BITS: bits,
        FieldType.BITS_LIST: _list(bits),
        FieldType.STRING: r"(?! )[^|\\]*+(?<! )",
        FieldType.WORD: "[a-z0-9_.-]++",
        FieldType.SHA256: "sha256:[0-9a-f]{64}",
        FieldType.DIGEST: "sha256:[0-9a-f]{64}|fnv1a64:[0-9a-f]{16}",
    }[kind]


def _real(digits: int, negative_zero: bool) -> str:
    # The largest double has 309 digits before the point.
    minus = "-?" if negative_zero else rf"(?:-(?!0\.0{{{digits}}}))?"
    return rf"(?:{minus}(?:0|[1-9][0-9]{{0,308}}+)\.[0-9]{{{digits}}}|nan|-?inf)"


def _list(item: str) -> str:
    # Possessive, so that a list of a million items needs no stack to go back on.
    return rf"\[(?:{item}(?:, {item})*+)?+\]"


def _in_range(text: str) -> bool:
    return not _LONG.search(text) or all(-(2**63) <= int(item) < 2**64 for item in _DIGITS.findall(text))


def _is_string(text: str) -> bool:
    if "\\" in text:
        return unescape(text) is not None
    return text[:1] != " " and text[-1:] != " "
