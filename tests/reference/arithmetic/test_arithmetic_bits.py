"""The bits of doubles as text, distance, bytes and digest."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.arithmetic.bits import from_hex_bits, hex_bits, little_endian_bytes, sha256_of, ulp_distance
from cai_reference.errors import ArithmeticFault
from support_refusals import refuses


def test_known_patterns() -> None:
    """The patterns of IEEE 754 that everyone knows."""
    assert ["3ff0000000000000", "8000000000000000", "0000000000000001", "7ff0000000000000", "400921fb54442d18"] == [
        hex_bits(x) for x in (1.0, -0.0, 5e-324, math.inf, math.pi)
    ]


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_hex_bits_undo_each_other(pattern: int) -> None:
    """Every pattern, NaN payloads included, survives a round trip; upper case is accepted."""
    text = f"{pattern:016x}"
    assert text == hex_bits(from_hex_bits(text))
    assert text == hex_bits(from_hex_bits(text.upper()))


@pytest.mark.parametrize(
    "text", ["", "3ff", "3ff00000000000000", "3ff000000000000g", " 3ff000000000000", "0x3ff00000000000"]
)
def test_other_texts_are_refused(text: str) -> None:
    """Anything but sixteen hexadecimal digits is refused, and the text is in the message."""
    with refuses(ArithmeticFault, "not-hex-bits") as refusal:
        from_hex_bits(text)
    assert f"{text!r} is not sixteen hexadecimal digits of a double" == str(refusal.value)


def test_trailing_newline_is_refused() -> None:
    """A line end is not a digit."""
    with refuses(ArithmeticFault, "not-hex-bits"):
        from_hex_bits("3ff0000000000000\n")


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 0),
        (1.0, math.nextafter(1.0, 2.0), 1),
        (5e-324, -5e-324, 2),
        (1.0, 2.0, 2**52),
        (math.inf, 1.7976931348623157e308, 1),
        (math.inf, math.inf, 0),
        (-math.inf, math.inf, 2 * 0x7FF0_0000_0000_0000),
        (math.nan, math.nan, 0),
        (math.nan, 1.0, 2**64),
        (1.0, math.nan, 2**64),
    ],
)
def test_distances(a: float, b: float, distance: int) -> None:
    """Distances count the doubles in between; zeros coincide; NaN is farther than any number."""
    assert distance == ulp_distance(a, b) == ulp_distance(b, a)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_distance_is_additive(x: float, y: float, z: float) -> None:
    """From the least to the greatest is the sum of the two steps in between."""
    low, middle, high = sorted((x, y, z))
    assert ulp_distance(low, high) == ulp_distance(low, middle) + ulp_distance(middle, high)


def test_bytes_ignore_layout() -> None:
    """Bytes are little-endian and row-major whatever the array's own order."""
    x = np.arange(6.0).reshape(2, 3)
    expected = struct.pack("<6d", *range(6))
    assert expected == little_endian_bytes(x)
    assert expected == little_endian_bytes(np.asfortranarray(x))
    assert expected == little_endian_bytes(x.astype(">f8"))
    assert struct.pack("<d", 1.5) == little_endian_bytes(1.5)


def test_digest_is_over_the_concatenation() -> None:
    """The digest of several arrays is that of their bytes in a row."""
    expected = "sha256:" + hashlib.sha256(struct.pack("<3d", 1.0, 2.0, 3.0)).hexdigest()
    assert expected == sha256_of([np.array([[1.0, 2.0]]), 3.0])
    assert expected == sha256_of(iter([np.array([1.0, 2.0, 3.0])]))
