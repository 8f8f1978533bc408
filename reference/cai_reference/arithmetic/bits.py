"""The bits of doubles: as hexadecimal text, as a distance in units in the last place, as bytes, as a digest.

This file does no arithmetic on the values themselves.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.errors import ArithmeticFault

_SIXTEEN_DIGITS = re.compile(r"[0-9a-fA-F]{16}\Z")


def hex_bits(x: float) -> str:
    """Return the sixteen lower-case hexadecimal digits of the big-endian double; 1.0 gives `3ff0000000000000`."""
    return struct.pack(">d", x).hex()


def from_hex_bits(text: str) -> float:
    """Return the double with these sixteen hexadecimal digits, of either case; raises `not-hex-bits`."""
    if not _SIXTEEN_DIGITS.match(text):
        raise ArithmeticFault("not-hex-bits", text=text)
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return float(value)


def ulp_distance(a: float, b: float) -> int:
    """Return how many doubles lie between `a` and `b`, counting `b`: 0 for equal values, 1 for neighbours.

    +0.0 and -0.0 are 0 apart; an infinity is the neighbour of the largest finite number of its sign. Two NaN are 0
    apart; NaN and a number are 2**64 apart, which is more than any two numbers are.
    """
    if a != a or b != b:
        # only a NaN is not equal to itself
        return 0 if a != a and b != b else 1 << 64
    return abs(_ordered(a) - _ordered(b))


def _ordered(x: float) -> int:
    (pattern,) = struct.unpack("<q", struct.pack("<d", x))
    # the bits of positive doubles are ordered as integers are; negative ones mirror them
    magnitude = int(pattern) & 0x7FFF_FFFF_FFFF_FFFF
    return magnitude if pattern >= 0 else -magnitude


def little_endian_bytes(array: Array | float) -> bytes:
    """Return the doubles of `array`, row-major, as eight little-endian bytes each, whatever its memory layout."""
    return np.asarray(array, dtype=np.float64).astype("<f8").tobytes(order="C")


def sha256_of(arrays: Iterable[Array | float]) -> str:
    """Return `sha256:<hex>` over the little-endian doubles of `arrays`, one after the other; shapes don't count."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(little_endian_bytes(array))
    return f"sha256:{digest.hexdigest()}"
