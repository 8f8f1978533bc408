"""One line of the protocol: an object of JSON, read more strictly than JSON asks.

A key that stands twice, a number with a fraction, `NaN` and a lone surrogate are legal to one reader of JSON and not to
the next; here they are errors, so that both sides see the same message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.limits import DEPTH, LARGEST, LINE_BYTES

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"
"""What a line may hold: no number with a fraction."""

Object: TypeAlias = "Mapping[str, Json]"

_DIGITS: Final = len("-") + len(str(LARGEST))

_NO_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[^][{}]', re.DOTALL)
"""Strings, and whatever else is no bracket."""


def format_line(message: Object) -> bytes:
    """Return an object as a line with its end.

    Raises:
        ProtocolViolation: it is longer than a line may be.
    """
    line = json.dumps(message, allow_nan=False, separators=(", ", ": ")).encode("ascii") + b"\n"
    if len(line) > LINE_BYTES:
        raise ProtocolViolation("a line", f"has {len(line)} bytes; the limit is {LINE_BYTES}")
    return line


def parse_line(line: bytes) -> dict[str, Json]:
    """Read a line without its end.

    Raises:
        ProtocolViolation: it is not UTF-8, not JSON, no object, or what only some readers would accept.
    """
    shown = _shown(line)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolViolation(shown, f"is not UTF-8: {error.reason} at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise ProtocolViolation(shown, "begins with a byte-order mark")
    if _too_deep(text):
        raise ProtocolViolation(shown, f"is nested deeper than {DEPTH}")
    try:
        value: Json = json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise ProtocolViolation(shown, f"is not JSON: {error.msg} at character {error.pos}") from None
    except _Unwelcome as error:
        raise ProtocolViolation(shown, str(error)) from None
    if not isinstance(value, dict):
        raise ProtocolViolation(shown, "is not an object")
    if "\\u" in text and _has_surrogate(value):
        raise ProtocolViolation(shown, "has half of a surrogate pair")
    return value


class _Unwelcome(Exception):
    """Raised from inside the JSON reader; its text becomes a violation."""


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Unwelcome(f"has the key {twice[:60]!r} twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise _Unwelcome(f"has the number {digits[:12]}… of {len(digits)} digits; beyond 2^53 it is a string of bits")
    return int(digits)


def _fraction(digits: str) -> NoReturn:
    raise _Unwelcome(f"has the number {digits[:24]}; a real number is a string of sixteen hex digits")


def _constant(name: str) -> NoReturn:
    raise _Unwelcome(f"has {name}, which JSON does not know; a real number is a string of sixteen hex digits")


def _too_deep(text: str) -> bool:
    """Tell whether brackets are nested deeper than `DEPTH`, without asking a parser that may not survive the answer."""
    if text.count("[") + text.count("{") <= DEPTH:
        return False
    depth = 0
    for bracket in _NO_BRACKETS.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH:
            return True
    return False


def _has_surrogate(value: Json) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_surrogate(key) or _has_surrogate(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_surrogate, value))


def _shown(line: bytes) -> str:
    text = line[:60].decode("utf-8", "replace")
    return f"the line {text!r}{'…' if len(line) > 60 else ''}"
