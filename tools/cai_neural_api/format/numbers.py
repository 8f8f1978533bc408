"""Decimals of `.nn` files: how the library spells a float32, and how any decimal is read.

Written is a general form of up to 10 significant digits without trailing zeros: no padding, no plus sign, a capital E
where the decimal exponent is below -5 or above 9. So the float32 nearest to

    0.02   is   0.01999999955          10000000000   is   1E10
    0.5    is   0.5                    0.00002       is   0.00001999999949
    -3     is   -3                     0.000002      is   1.999999995E-6

Values halfway between two spellings are common, since initial values lie on grids. Of those below 0.5 the library takes
the even last digit, of the others the one away from zero: 0.13720703125 becomes 0.1372070312, and 0.51806640625 becomes
0.5180664063. (Its conversion scales small numbers first, and rounds them in another place.) A zero keeps its sign.

Nine digits tell any two float32 values apart, so ten bring back each. Read is any decimal: it becomes the nearest
double, and that the nearest float32, ties to even. A decimal that float32 does not hold is thus rounded without a word;
one beyond its range is refused, one too small becomes zero.

Source: CAI NEURAL API, `NeuralFloatToStr` and `NeuralStrToFloat`, as compiled by Free Pascal 3.2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import AnyStr, Final

import numpy as np

from cai_neural_api.errors import NetFormatError
from cai_reference.arithmetic import Array

DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
"""What is read as a number: no names for infinities, no underscores, no white space.

Digits once taken are not given back: a text of very many digits and a letter would be tried in as many ways.
"""

EXPONENT: Final = re.compile(r"([0-9])(?:\.([0-9]+))?e([+-][0-9]+)")
"""A number as Python spells it with an exponent."""

DIGITS: Final = 10
"""How many significant digits are written at most."""

SMALLEST_AWAY: Final = 0.5
"""From here on a number halfway between two spellings is rounded away from zero."""

POWERS: Final = np.array([1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10])
"""A number from the k-th on has k digits before its decimal point."""

NOT_A_DECIMAL: Final = "not a decimal number"
TOO_LARGE: Final = "beyond the range of float32"


def pieces(text: AnyStr, separator: AnyStr) -> Iterator[AnyStr]:
    """Yield what stands between separators, one piece after the other: a damaged text must not be split as a whole."""
    start = 0
    while (end := text.find(separator, start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def to_float32(values: Array) -> Array:
    """Round to the nearest float32, ties to even, and keep that as float64; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def problem_of(text: str) -> str | None:
    """Return what keeps a text from being a number of float32, None if nothing does."""
    if not DECIMAL.fullmatch(text):
        return NOT_A_DECIMAL
    if not np.isfinite(to_float32(np.array(float(text)))):
        return TOO_LARGE
    return None


def read_number(text: str) -> float:
    """Return the float32 nearest to a decimal that `problem_of` has nothing against."""
    return float(to_float32(np.array(float(text))))


def format_number(value: float) -> str:
    """Spell a float32 value as the library does; another value is first rounded to float32.

    Raises:
        NetFormatError (number-not-writable): the value is not finite, or is not in float32.
    """
    rounded = float(to_float32(np.array(value)))
    if not np.isfinite(rounded):
        raise NetFormatError("number-not-writable", value=value)
    return format_numbers(np.array([rounded]))


def format_numbers(values: Array) -> str:
    """Spell finite float32 values [n] in one go, joined by `;`."""
    numbers = off_halfway(values).tolist()
    return respelled(";".join(["%.10g"] * len(numbers)) % tuple(numbers))


def off_halfway(values: Array) -> Array:
    """Push values that must be rounded away from zero from halfway between two spellings to the next double.

    Python rounds exactly, and a tie to the even digit. A float32 is a tie if its decimal expansion has 11 digits. As an
    odd number of halves has one decimal, an odd number of quarters two, it is one if it is an odd number of 2^-n, where
    n decimals make 11 digits.
    """
    size = np.abs(values)
    decimals = np.maximum(DIGITS + 1 - np.searchsorted(POWERS, size, side="right"), 1)
    tie = (size >= SMALLEST_AWAY) & (np.ldexp(size, decimals) % 2.0 == 1.0)
    return np.where(tie, np.nextafter(values, np.copysign(np.inf, values)), values)


def respelled(text: str) -> str:
    """Turn the exponents of Python's general form into those of Pascal's."""
    return EXPONENT.sub(respelled_exponent, text) if "e" in text else text


def respelled_exponent(found: re.Match[str]) -> str:
    """Turn `1.5e-07` into `1.5E-7`, and `1.5e-05`, which Pascal writes without exponent, into `0.000015`."""
    first, rest, exponent = found[1], found[2] or "", int(found[3])
    if exponent == -5:
        return f"0.0000{first}{rest}"
    return f"{first}.{rest}E{exponent}" if rest else f"{first}E{exponent}"
