"""JSON as this program writes it: pages are written, and what `parse` read is held against exact keys and types.

A file that a person or a merge tool has bent is better refused than half understood. The caller turns the `ValueError`
into an error that names the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from cai_reference.text import strict_json

Object = dict[str, object]

LIMIT: Final = 1 << 63
"""Every count is below it, so that products of a few stay short and can be printed."""

SHOWN: Final = 60
"""So many characters of a key are told."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def parse(data: bytes) -> object:
    """Read JSON as `cai_reference.text.strict_json.parse` does.

    Raises:
        ValueError: it is not strict JSON; what and where.
    """
    try:
        return strict_json.parse(data)
    except strict_json.JsonProblem as error:
        raise ValueError(str(error)) from None


def write_line(value: Object) -> bytes:
    """One line of JSON with sorted keys and a final LF."""
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def write_page(value: Object) -> bytes:
    """JSON for reviewers: sorted keys, two spaces of indent, a final LF."""
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode("utf-8")


def obj(value: object, keys: Iterable[str], where: str, optional: Iterable[str] = ()) -> Object:
    """An object that has exactly these keys."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    required = set(keys)
    missing, unknown = sorted(required - value.keys()), sorted(value.keys() - required - set(optional))
    if missing:
        raise ValueError(f"{where} lacks the key {missing[0]}")
    if unknown:
        raise ValueError(f"{where} has the unknown key {unknown[0][:SHOWN]}")
    return value


def array(value: object, where: str) -> list[object]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    return value


def text(value: object, where: str) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where} is not a text")
    return value


def count(value: object, where: str) -> int:
    """An integer of at least 0 that fits into 63 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LIMIT:
        raise ValueError(f"{where} is not a count")
    return value


def sha256(value: object, where: str) -> str:
    """A SHA-256 in 64 lower-case hex digits."""
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise ValueError(f"{where} is not a SHA-256")
    return value


def shown(value: object) -> str:
    """A value for a message, cut where it is long; of what is nested only what it is."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if any(isinstance(item, list | dict) for item in inner):
        return "an object" if isinstance(value, dict) else "a list"
    spelt = repr(value)
    return spelt if len(spelt) <= SHOWN else f"{spelt[: SHOWN - 1]}…"
