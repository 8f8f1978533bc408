"""What a later start does to rows where the arithmetic defines every bit, so that nothing else has to be measured."""

from __future__ import annotations

from typing import Final

from cai_conformance.measuring.floor import FloorSource, Level, NoiseFloor

FAR_START: Final = 3000
"""Where a sequence starts late enough that an angle has lost digits."""
NEAR_UNITS, FAR_UNITS = 16.0, 128.0
"""Units of float64. The reference measured up to 7 and 29 on the models of all suites.

Angles in half precision give more than a thousand million."""


def bounded_starts(precision: str) -> NoiseFloor:
    """Return the floor of rows that start elsewhere."""
    near, far = (Level((FloorSource("a bound of angles", units, 0.0),)) for units in (NEAR_UNITS, FAR_UNITS))
    return NoiseFloor(precision, near, far, measured=False)
