"""How `.nn` files spell numbers, against decimals of any length and spellings that the library wrote."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pytest

from cai_neural_api.format import format_number

CONTEXT = Context(prec=200)

WRITTEN = [
    # Spellings found in files of the library.
    "-0.1372070312",
    "-0.01440429688",
    "0.5180664063",
    "1.129882813",
    "0.000045629331",
    "-0.0007199999527",
    "7.99999998E-6",
    "0.01999999955",
    "10000",
    # The edges of the notation and of the type.
    "0",
    "-0",
    "9999998976",
    "1E10",
    "-2E10",
    "6.871947674E10",
    "1.401298464E-45",
    "1.175494351E-38",
    "-3.402823466E38",
    "0.00001000000066",
    "9.999999747E-6",
]


def of_bits(bits: int) -> float:
    """Return the float32 of 32 bits."""
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def slowly(value: float) -> str:
    """Spell a number from its exact decimal expansion."""
    if value == 0:
        return "-0" if np.signbit(value) else "0"
    exact = Decimal(value)
    step = Decimal(1).scaleb(exact.adjusted() - 9)
    rounding = ROUND_HALF_UP if abs(value) >= 0.5 else ROUND_HALF_EVEN
    rounded = exact.quantize(step, rounding, CONTEXT).normalize(CONTEXT)
    exponent = rounded.adjusted()
    if -5 <= exponent < 10:
        return f"{rounded:f}"
    first, *rest = map(str, rounded.as_tuple().digits)
    return f"{'-' if value < 0 else ''}{first}{'.' if rest else ''}{''.join(rest)}E{exponent}"


def bit_patterns(number: int) -> list[int]:
    """Return random bits of finite float32 values; every 16th is a denormal."""
    bits = np.random.default_rng(20260616).integers(0, 2**32, number, dtype=np.uint32)
    bits[::16] &= 0x807FFFFF
    return [int(pattern) for pattern in bits[(bits & 0x7F800000) != 0x7F800000]]


class TestSpelling:
    """`format_number`."""

    @pytest.mark.parametrize("text", WRITTEN)
    def test_a_number_is_spelled_as_the_library_does(self, text: str) -> None:
        """The number nearest to a spelling has that spelling; the slow way of these tests agrees."""
        value = float(np.float32(text))
        assert (text, text) == (format_number(value), slowly(value))

    def test_halfway_numbers_are_rounded_by_their_size(self) -> None:
        """Every odd multiple of 1/2048 below 1, and of a power of two with 11 digits above it."""
        for numerator in range(1, 2048, 2):
            for value in (numerator / 2048, -numerator / 2048, 1 + numerator / 1024 / 2, 3 + numerator / 1024):
                assert slowly(value) == format_number(value), value
        for whole, decimals in ((10, 9), (100, 8), (1000, 7), (10000, 6), (100000, 5), (1000000, 4)):
            for value in (whole + 1 / 2**decimals, whole + 3 / 2**decimals, -whole - 5 / 2**decimals):
                assert len(Decimal(value).as_tuple().digits) == 11
                assert slowly(value) == format_number(value), value

    def test_the_exponent_changes_notation_where_the_library_changes_it(self) -> None:
        """Around each power of ten, as far as float32 goes."""
        for exponent in range(-44, 39):
            near = np.float32(f"1e{exponent}")
            for value in (np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32("inf"))):
                assert slowly(float(value)) == format_number(float(value)), value

    def test_random_bits_come_back(self) -> None:
        """Spelled as the slow way spells them, and read as the float32 they were."""
        for bits in bit_patterns(4000):
            text = format_number(of_bits(bits))
            assert slowly(of_bits(bits)) == text
            assert struct.unpack("<I", np.float32(float(text)).tobytes())[0] == bits, text

    @pytest.mark.exhaustive
    def test_many_random_bits_come_back(self) -> None:
        """Tens of thousands of them."""
        for bits in bit_patterns(60_000):
            text = format_number(of_bits(bits))
            assert slowly(of_bits(bits)) == text
            assert struct.unpack("<I", np.float32(float(text)).tobytes())[0] == bits, text

    def test_other_numbers_are_rounded_first(self) -> None:
        """The file holds float32 values only."""
        assert ("0.1000000015", "16777216") == (format_number(0.1), format_number(16777217.0))
