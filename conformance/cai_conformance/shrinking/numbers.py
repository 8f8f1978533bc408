"""Smaller numbers: to the least, halfway there, and by one step."""

from __future__ import annotations

from collections.abc import Iterator


def smaller(value: int, least: int, step: int = 1) -> Iterator[int]:
    """Yield smaller numbers down to `least`, all of them some steps above it, the smallest first."""
    found: list[int] = []
    if value > least:
        halfway = least + (value - least) // 2 // step * step
        for candidate in (least, halfway, value - step):
            if least <= candidate < value and candidate not in found:
                found.append(candidate)
    yield from found
