"""Taking values out of the settings of a model folder, each of the type that it must have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from cai_conformance.goldens import strict_json

LARGEST: Final = 1 << 31
"""No size of a model is as large as this."""


class ModelSettings:
    """The settings that a file states.

    Raises:
        ValueError: from every method: a value is missing, or of another type than it must have.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def size(self, key: str) -> int:
        """Return a whole number."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
            raise self._problem(key, "a whole number")
        return value

    def optional_size(self, key: str) -> int | None:
        """Return a whole number, or None where null stands."""
        return None if self._value(key) is None else self.size(key)

    def real(self, key: str) -> float:
        """Return a finite number."""
        value = self._value(key)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST:
            return float(value)
        if not isinstance(value, float) or not math.isfinite(value):
            raise self._problem(key, "a finite number")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise self._problem(key, "true or false")
        return value

    def word(self, key: str, known: Sequence[str]) -> str:
        """Return one of some words."""
        value = self._value(key)
        if not isinstance(value, str) or value not in known:
            raise self._problem(key, f"one of {', '.join(known)}")
        return value

    def _value(self, key: str) -> object:
        if key not in self._values:
            raise ValueError(f"the settings lack {key!r}")
        return self._values[key]

    def _problem(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{key!r} of the settings is {strict_json.shown(self._values[key])}, not {wanted}")
