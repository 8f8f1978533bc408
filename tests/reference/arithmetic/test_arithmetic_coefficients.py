"""The constants of `strict/1` against their definitions, and their copies in the documentation and in C."""

from __future__ import annotations

import re
from fractions import Fraction
from math import factorial
from pathlib import Path

import mpmath
import pytest

from cai_reference.arithmetic import coefficients
from cai_reference.arithmetic.bits import hex_bits

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "reference" / "docs" / "arithmetic.md"

HEXADECIMAL_DOUBLE = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]?\d+")


def _cut(value: mpmath.mpf, bits: int) -> float:
    """The first `bits` significant bits of a positive value."""
    significand, exponent = mpmath.frexp(value)
    return float(mpmath.ldexp(mpmath.floor(mpmath.ldexp(significand, bits)), exponent - bits))


def test_taylor_coefficients_are_rounded_fractions() -> None:
    """Each polynomial coefficient is the exact fraction, rounded to nearest."""
    assert tuple(float(Fraction(1, factorial(n))) for n in range(2, 15)) == coefficients.EXP
    assert tuple(float(Fraction(2, 2 * n + 1)) for n in range(1, 11)) == coefficients.LOG
    assert tuple(float(Fraction((-1) ** n, factorial(2 * n + 1))) for n in range(1, 9)) == coefficients.SIN
    assert tuple(float(Fraction((-1) ** n, factorial(2 * n))) for n in range(2, 10)) == coefficients.COS


def test_split_constants_are_cut_from_exact_values() -> None:
    """The parts of ln 2 and pi/2 are cut at 32 and 33 bits, the last part rounded to nearest."""
    with mpmath.workprec(400):
        assert _cut(mpmath.ln(2), 32) == coefficients.LN2_HIGH
        assert float(mpmath.ln(2) - coefficients.LN2_HIGH) == coefficients.LN2_LOW
        rest = mpmath.pi / 2
        for part in (coefficients.HALF_PI_1, coefficients.HALF_PI_2, coefficients.HALF_PI_3):
            assert _cut(rest, 33) == part
            rest -= part
        assert float(rest) == coefficients.HALF_PI_4


def test_rounded_constants() -> None:
    """The remaining constants are exact values rounded to nearest."""
    with mpmath.workprec(400):
        assert float(1 / mpmath.ln(2)) == coefficients.INVERSE_LN2
        assert float(2 / mpmath.pi) == coefficients.INVERSE_HALF_PI
        assert hex_bits(float(mpmath.sqrt(0.5))) == f"{coefficients.SQRT_HALF_BITS:016x}"
    assert hex_bits(coefficients.SHIFT) == f"{coefficients.SHIFT_BITS:016x}"
    assert float(2**27 + 1) == coefficients.SPLITTER


@pytest.mark.parametrize("copy", [PAGE, HERE / "elementary.c"], ids=["page", "c"])
def test_copies_hold_every_constant(copy: Path) -> None:
    """The documentation page and the C file hold the same hexadecimal doubles as the Python."""
    source = Path(coefficients.__file__).read_text(encoding="utf-8")
    tables = [*coefficients.EXP, *coefficients.LOG, *coefficients.SIN, *coefficients.COS]
    expected = {float.fromhex(text) for text in HEXADECIMAL_DOUBLE.findall(source)}
    assert set(tables) < expected
    found = {float.fromhex(text) for text in HEXADECIMAL_DOUBLE.findall(copy.read_text(encoding="utf-8"))}
    assert expected - {coefficients.SHIFT} == found - {coefficients.SHIFT, coefficients.SPLITTER}
