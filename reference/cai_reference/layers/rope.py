"""Rotary position embedding: pairs of features are turned by position · θ_j, with θ_j = base^(−2j/width).

Which features make pair j is the layout: 2j and 2j + 1 (Su and others, "RoFormer", 2021), or j and j + width/2, as in
the files of Llama models. One is the other with the features reordered, so weights made for one layout are useless in
the other, without any error. Position 0 is the identity.

The tables come from the arithmetic's sin and cos, so that they have defined bits; so do the frequencies, by exp and
log, unless the nearest doubles to the powers are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.errors import LayerError


class RopeLayout(StrEnum):
    """Which features are turned together."""

    ADJACENT = "adjacent"
    HALF_SPLIT = "half-split"


class Frequencies(StrEnum):
    """How base^(−2j/width) is computed.

    EXPONENTIAL is exp((−2j/width) · log base), with the bits that the arithmetic's exp and log give: up to 13 ULP off
    at base 10000 and width 128, because the exponent is rounded before it is raised. NEAREST is the double nearest to
    the power, found in whole numbers and so the same everywhere. It is what the `pow` of a good C library gives
    wherever −2j/width is exact, so for widths that are powers of two (course, chapters 29 to 39, whose heads are 2 and
    4 wide).
    """

    EXPONENTIAL = "exponential"
    NEAREST = "nearest"


@dataclass(frozen=True)
class Rope:
    """How positions are told: base, layout, and the making of the frequencies.

    Raises:
        LayerError (invalid-rope-base): the base is not a positive finite number.
    """

    base: float
    layout: RopeLayout = RopeLayout.ADJACENT
    frequencies: Frequencies = Frequencies.EXPONENTIAL

    def __post_init__(self) -> None:
        check_base(self.base)


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines for consecutive positions, each of shape [positions, width/2]."""

    cosines: Array
    sines: Array


@lru_cache(maxsize=1024)
def rotation(
    arithmetic: Arithmetic,
    start: int,
    positions: int,
    width: int,
    base: float,
    frequencies: Frequencies = Frequencies.EXPONENTIAL,
) -> Rotation:
    """Return the tables for positions start … start + positions − 1; they are made once and never written to.

    Raises:
        LayerError (odd-rope-width): features cannot be paired.
    """
    if width % 2:
        raise LayerError("odd-rope-width", width=width)
    thetas = _exponential if frequencies is Frequencies.EXPONENTIAL else _nearest
    # position · θ_j, one rounded product each
    angles = np.arange(start, start + positions, dtype=np.float64)[:, None] * thetas(arithmetic, width, base)
    tables = Rotation(arithmetic.cos(angles), arithmetic.sin(angles))
    tables.cosines.flags.writeable = tables.sines.flags.writeable = False
    return tables


def turn(x: Array, cosines: Array, sines: Array, layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
    """Turn pairs counter-clockwise: (l, r) → (l·cos − r·sin, l·sin + r·cos)."""
    if layout is RopeLayout.ADJACENT:
        first, second = slice(0, None, 2), slice(1, None, 2)
    else:
        first, second = slice(0, x.shape[-1] // 2), slice(x.shape[-1] // 2, None)
    left, right = x[..., first], x[..., second]
    result = np.empty(x.shape)
    # Overflow is reported by the tape as an error with a place, not as a warning without one.
    with np.errstate(over="ignore"):
        result[..., first] = left * cosines - right * sines
        result[..., second] = left * sines + right * cosines
    # −0.0 becomes +0.0
    return result + 0.0


def rotate(tape: Tape, x: Variable, start: int, rope: Rope) -> Variable:
    """Turn every row of [..., tokens, width] by its position; row 0 stands at position `start`.

    The gradient is turned back.

    Raises:
        LayerError (odd-rope-width): features cannot be paired.
    """
    tokens, width = x.shape[-2:]
    table = rotation(tape.arithmetic, start, tokens, width, rope.base, rope.frequencies)

    def pullback(adjoint: Array) -> tuple[Array]:
        # the inverse of a rotation turns the other way
        return (turn(adjoint, table.cosines, -table.sines, rope.layout),)

    return tape.record("rope", turn(x.value, table.cosines, table.sines, rope.layout), (x,), pullback)


def check_base(base: float) -> None:
    """Refuse a base of which there are no powers.

    Raises:
        LayerError (invalid-rope-base): with its value.
    """
    if not (math.isfinite(base) and base > 0.0):
        raise LayerError("invalid-rope-base", base=base)


@lru_cache(maxsize=64)
def _exponential(arithmetic: Arithmetic, width: int, base: float) -> Array:
    # divided before it is multiplied by the logarithm, as strict/1 has it
    exponents = (-2.0 * np.arange(width // 2, dtype=np.float64)) / float(width)
    return arithmetic.exp(exponents * arithmetic.log(base))


@lru_cache(maxsize=64)
def _nearest(arithmetic: Arithmetic, width: int, base: float) -> Array:
    guesses = _exponential(arithmetic, width, base).tolist()
    return np.array([_nearest_power(base, 2 * pair, width, guess) for pair, guess in enumerate(guesses)])


def _nearest_power(base: float, up: int, down: int, guess: float) -> float:
    """Return the double nearest to base^(−up/down), starting from one close by."""
    if not math.isfinite(guess):
        return guess
    # powers of whole numbers: the smaller the exponents, the faster
    shared = math.gcd(up, down)
    up, down = up // shared, down // shared
    numerator, denominator = base.as_integer_ratio()
    # t < base^(−up/down), both sides raised to the power `down`, is a comparison of whole numbers.
    target, unit = pow(denominator, up), pow(numerator, up)

    def below(t: float, next_one: float) -> bool:
        """Whether the power lies above the middle of two neighbouring doubles."""
        (a, b), (c, d) = t.as_integer_ratio(), next_one.as_integer_ratio()
        middle_up, middle_down = a * d + c * b, 2 * b * d
        return bool(pow(middle_up, down) * unit < target * pow(middle_down, down))

    while below(guess, math.nextafter(guess, math.inf)):
        guess = math.nextafter(guess, math.inf)
    while not below(math.nextafter(guess, 0.0), guess):
        guess = math.nextafter(guess, 0.0)
    return guess
