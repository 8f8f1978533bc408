"""Taking values out of parsed JSON, each of the type that it must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from cai_reference.checkpoints.saved.errors import BadDescription
from cai_reference.text.strict_json import Json, Object

STATE_DIGITS: Final = 16
DIGEST_DIGITS: Final = 64
LIMIT: Final = 1 << 256
"""Whole numbers are below it, so that products of a few stay short and can be printed."""
LONGEST: Final = 200
"""No parameter has a longer name."""
SHOWN: Final = 80
"""So many characters of a value are told."""
HEX_DIGITS: Final = frozenset("0123456789abcdef")


class Fields:
    """An object with exactly these keys.

    Raises:
        BadDescription: it is none, or lacks a key, or has another one; from every method: a value is of another type.
    """

    def __init__(self, value: Json, where: str, keys: Sequence[str]) -> None:
        if not isinstance(value, Object):
            raise BadDescription(where, "it is not an object")
        for key in keys:
            if key not in value:
                raise BadDescription(where, f"it lacks {key!r}")
        for key in value:
            if key not in keys:
                raise BadDescription(where, f"it has {shown(key)}, which means nothing")
        self._value = value
        self.where = where

    def raw(self, key: str) -> Json:
        """Return a value of any type."""
        return self._value[key]

    def is_null(self, key: str) -> bool:
        """Tell whether there is a key without a value."""
        return self._value[key] is None

    def integer(self, key: str) -> int:
        """Return a whole number that is not negative and fits into 256 bits."""
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LIMIT:
            raise self.problem(key, "a whole number that is not negative")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number that is not negative, or None."""
        return None if self.is_null(key) else self.integer(key)

    def double(self, key: str) -> float:
        """Return a finite number, spelled with a point or an exponent."""
        value = self._value[key]
        if not isinstance(value, float) or not math.isfinite(value):
            raise self.problem(key, "a finite number with a point or an exponent")
        return value

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._value[key]
        if not isinstance(value, str):
            raise self.problem(key, "a text")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._value[key]
        if not isinstance(value, bool):
            raise self.problem(key, "true or false")
        return value

    def hex_state(self, key: str) -> int:
        """Return the state of a generator."""
        value = self.text(key)
        if len(value) != STATE_DIGITS or not set(value) <= HEX_DIGITS:
            raise self.problem(key, f"{STATE_DIGITS} hex digits")
        return int(value, 16)

    def digest(self, key: str) -> str:
        """Return a SHA-256 in hex digits."""
        value = self.text(key)
        if len(value) != DIGEST_DIGITS or not set(value) <= HEX_DIGITS:
            raise self.problem(key, f"{DIGEST_DIGITS} hex digits")
        return value

    def array(self, key: str) -> list[Json]:
        """Return a list."""
        value = self._value[key]
        if not isinstance(value, list):
            raise self.problem(key, "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, none of which is longer than `LONGEST`."""
        found = tuple(value for value in self.array(key) if isinstance(value, str) and len(value) <= LONGEST)
        if len(found) != len(self.array(key)):
            raise self.problem(key, "a list of texts")
        return found

    def shape(self, key: str) -> tuple[int, ...]:
        """Return a list of lengths, none of which is 0."""
        found = tuple(
            value
            for value in self.array(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < LIMIT
        )
        if len(found) != len(self.array(key)):
            raise self.problem(key, "a list of lengths")
        return found

    def problem(self, key: str, wanted: str) -> BadDescription:
        """Return the error of a value that is something else."""
        return BadDescription(self.where, f"{key} is {shown(self._value[key])}, not {wanted}")


def choice(value: Json, where: str, key: str, known: Sequence[str]) -> str:
    """Return the text under a key of an object, which has to be one of these."""
    found = value.get(key) if isinstance(value, Object) else None
    if not isinstance(found, str) or found not in known:
        raise BadDescription(where, f"{key} is {shown(found)}, not one of {', '.join(known)}")
    return found


def shown(value: Json) -> str:
    """Return a value as errors spell it, cut where it is long; of what is nested only what it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        return "a nested list"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
