"""One line of the protocol: an object of JSON, read more strictly than JSON asks.

A key that stands twice, a number with a fraction, `NaN` and a lone surrogate are legal to one reader of JSON and not to
the next; here they are errors, so that both sides see the same message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias, cast

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.process import DEPTH, LARGEST, LINE_BYTES
from cai_reference.text import strict_json

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
    if line.startswith(b"\xef\xbb\xbf"):
        raise ProtocolViolation(shown, "begins with a byte-order mark")
    if _too_deep(line.decode("utf-8", "replace")):
        raise ProtocolViolation(shown, f"is nested deeper than {DEPTH}")
    try:
        value = strict_json.parse(line, integer=_integer, real=_real)
    except strict_json.JsonProblem as error:
        raise ProtocolViolation(shown, f"is no message: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolViolation(shown, "is not an object")
    return cast("dict[str, Json]", value)


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        problem = f"the number {digits[:12]}… has {len(digits)} digits; beyond 2^53 it is a string of bits"
        raise strict_json.JsonProblem(problem)
    return int(digits)


def _real(digits: str) -> NoReturn:
    problem = f"{digits[:24]} is no integer; a real number is a string of sixteen hex digits"
    raise strict_json.JsonProblem(problem)


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


def _shown(line: bytes) -> str:
    text = line[:60].decode("utf-8", "replace")
    return f"the line {text!r}{'…' if len(line) > 60 else ''}"
