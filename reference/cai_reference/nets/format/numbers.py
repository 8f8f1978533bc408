"""Decimals of `.nn` files: how the library spells a float32, and how any decimal is read.

Written is the shortest general form of up to 10 significant digits, ties to even: no padding, no plus sign, a capital E
where the decimal exponent is below -5 or above 9::

    0.02 -> 0.01999999955      1e-05 -> 0.000009999999747 (exponent -6 after rounding: 9.999999747E-6)
    10000.0 -> 10000           4.5629331e-05 -> 0.000045629331

Nine digits tell any two float32 values apart, so ten bring back each. Read is any decimal: it becomes the nearest
double, and that the nearest float32, ties to even. A decimal that float32 does not hold is thus rounded without a word;
one beyond its range is refused, one too small becomes zero.

Source: CAI NEURAL API, `NeuralFloatToStr` and `NeuralStrToFloat` (float format ffGeneral with 10 digits).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.nets.format.errors import NumberNotWritable

DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""What is read as a number: no names for infinities, no underscores, no white space."""

EXPONENT: Final = re.compile(r"([0-9])(?:\.([0-9]+))?e([+-][0-9]+)")
"""A number as Python spells it with an exponent."""

NOT_A_DECIMAL: Final = "not a decimal number"
TOO_LARGE: Final = "beyond the range of float32"


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
        NumberNotWritable: the value is not finite, or is not in float32.
    """
    rounded = float(to_float32(np.array(value)))
    if not np.isfinite(rounded):
        raise NumberNotWritable(value)
    return respelled(f"{rounded:.10g}")


def format_numbers(values: Array) -> str:
    """Spell finite float32 values [n] in one go, joined by `;`."""
    numbers = values.tolist()
    return respelled(";".join(["%.10g"] * len(numbers)) % tuple(numbers))


def respelled(text: str) -> str:
    """Turn the exponents of Python's general form into those of Pascal's."""
    return EXPONENT.sub(respelled_exponent, text) if "e" in text else text


def respelled_exponent(found: re.Match[str]) -> str:
    """Turn `1.5e-07` into `1.5E-7`, and `1.5e-05`, which Pascal writes without exponent, into `0.000015`."""
    first, rest, exponent = found[1], found[2] or "", int(found[3])
    if exponent == -5:
        return f"0.0000{first}{rest}"
    return f"{first}.{rest}E{exponent}" if rest else f"{first}E{exponent}"
