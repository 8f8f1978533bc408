"""The elementary functions of the three arithmetics: special values, shapes, layouts and laws."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.bits import hex_bits, little_endian_bytes, ulp_distance
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.arithmetic.vectors import FUNCTIONS

Arguments = Callable[[str, int], Array]

TINY = 5e-324
HUGE = 1.7976931348623157e308

# Argument and result, from IEEE 754-2019, clause 9.2.1, and from the limits of binary64.
SPECIAL = {
    "exp": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (TINY, 1.0),
        (710.0, math.inf),
        (709.782712893384, 1.7976931348622732e308),
        (-745.0, TINY),
        (-746.0, 0.0),
        (HUGE, math.inf),
        (-HUGE, 0.0),
        (math.inf, math.inf),
        (-math.inf, 0.0),
        (math.nan, math.nan),
    ],
    "log": [
        (0.0, -math.inf),
        (-0.0, -math.inf),
        (1.0, 0.0),
        (TINY, -744.4400719213812),
        (HUGE, 709.782712893384),
        (-TINY, math.nan),
        (-1.0, math.nan),
        (math.inf, math.inf),
        (-math.inf, math.nan),
        (math.nan, math.nan),
    ],
    "log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (TINY, TINY),
        (-TINY, -TINY),
        (-1.0, -math.inf),
        (HUGE, 709.782712893384),
        (-1.5, math.nan),
        (math.inf, math.inf),
        (-math.inf, math.nan),
        (math.nan, math.nan),
    ],
    "tanh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (TINY, TINY),
        (-TINY, -TINY),
        (22.0, 1.0),
        (-HUGE, -1.0),
        (math.inf, 1.0),
        (-math.inf, -1.0),
        (math.nan, math.nan),
    ],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (math.inf, math.nan), (-math.inf, math.nan), (math.nan, math.nan)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (TINY, 1.0), (math.inf, math.nan), (-math.inf, math.nan), (math.nan, math.nan)],
}

numbers = st.floats(width=64, allow_nan=False)
angles = st.floats(min_value=-1.0e6, max_value=1.0e6)


def number(result: Array) -> float:
    """The only element of an array without axes."""
    return result.item()


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_special_values(arithmetic: Arithmetic, function: str) -> None:
    """Zeros keep their sign, poles are infinite, overflow and underflow saturate, and nothing warns or raises."""
    cases = SPECIAL[function]
    found = getattr(arithmetic, function)(np.array([x for x, _ in cases]))
    assert [hex_bits(abs(y) if y != y else y) for _, y in cases] == [
        hex_bits(abs(y) if y != y else y) for y in found.tolist()
    ]


@pytest.mark.parametrize("function", ["sin", "cos"])
def test_strict_angles_end_at_a_million(function: str) -> None:
    """Beyond a million the strict sine and cosine are NaN; up to there they are numbers."""
    beyond = math.nextafter(1.0e6, math.inf)
    assert np.isnan(getattr(STRICT, function)(np.array([beyond, -beyond, 1.0e6, -1.0e6]))).tolist() == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_do_not_depend_on_shape_or_layout(arithmetic: Arithmetic, function: str, arguments: Arguments) -> None:
    """A number, a block, a transposed array, a slice and an array without axes give the same bits."""
    apply = getattr(arithmetic, function)
    x = arguments(function, 12_000).reshape(60, 200)
    expected = little_endian_bytes(apply(x))
    wide = np.repeat(x, 2, axis=1)
    assert expected == little_endian_bytes(apply(np.asfortranarray(x)))
    assert expected == little_endian_bytes(apply(wide[:, ::2]))
    assert expected == little_endian_bytes(apply(x.reshape(-1)[::-1])[::-1])
    assert expected == little_endian_bytes(apply(x.astype(">f8")))
    sample = x.reshape(-1)[::97]
    assert little_endian_bytes(apply(sample)) == b"".join(little_endian_bytes(apply(v)) for v in sample.tolist())


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (2, 3, 4)])
def test_shapes_are_kept(arithmetic: Arithmetic, function: str, shape: tuple[int, ...]) -> None:
    """The result is a float64 array of the argument's shape, and the argument is left as it was."""
    x = np.full(shape, 0.5)
    result = getattr(arithmetic, function)(x)
    assert (np.ndarray, shape, np.float64) == (type(result), result.shape, result.dtype)
    assert np.array_equal(x, np.full(shape, 0.5))


@given(st.floats(min_value=-700.0, max_value=700.0))
def test_log_undoes_exp(x: float) -> None:
    """log(exp(x)) is x up to what a relative error of exp amounts to."""
    assert abs(number(STRICT.log(STRICT.exp(x))) - x) <= 2.0**-51 + 2.0**-51 * abs(x)


@given(st.floats(min_value=0.0, exclude_min=True, allow_infinity=False))
def test_exp_undoes_log(x: float) -> None:
    """exp(log(x)) is x up to what the rounding of the logarithm amounts to."""
    slack = 2.0**-50 * max(1.0, abs(math.log(x)))
    assert abs(number(STRICT.exp(STRICT.log(x))) - x) <= max(slack * x, TINY)


@given(st.floats(min_value=-0.9, max_value=1e300))
def test_log1p_is_close_to_log_of_the_sum(x: float) -> None:
    """log1p(x) differs from log(1 + x) by no more than the rounding of 1 + x."""
    assert abs(number(STRICT.log1p(x)) - number(STRICT.log(1.0 + x))) <= 2.0**-49 * max(1.0, abs(math.log1p(x)))


@given(angles)
def test_squares_of_sine_and_cosine_sum_to_one(x: float) -> None:
    """sin(x)**2 + cos(x)**2 is 1 within a few units."""
    sine, cosine = number(STRICT.sin(x)), number(STRICT.cos(x))
    assert abs(sine * sine + cosine * cosine - 1.0) <= 2.0**-51


@given(angles)
def test_symmetry_of_angles(x: float) -> None:
    """Sine is odd and cosine is even, in every bit."""
    assert hex_bits(-number(STRICT.sin(x))) == hex_bits(number(STRICT.sin(-x)))
    assert hex_bits(number(STRICT.cos(x))) == hex_bits(number(STRICT.cos(-x)))


@given(numbers)
def test_tanh_is_odd_and_bounded(x: float) -> None:
    """The hyperbolic tangent is odd in every bit and never leaves [-1, 1]."""
    value = number(STRICT.tanh(x))
    assert hex_bits(-value) == hex_bits(number(STRICT.tanh(-x)))
    assert abs(value) <= 1.0


@pytest.mark.parametrize("function", ["exp", "log", "log1p", "tanh"])
@given(x=numbers, y=numbers)
def test_almost_monotone(function: str, x: float, y: float) -> None:
    """A larger argument never gives a result that is smaller by more than 2 ULP."""
    low, high = sorted((x, y))
    below, above = number(getattr(STRICT, function)(low)), number(getattr(STRICT, function)(high))
    if not (math.isnan(below) or math.isnan(above)):
        assert below <= above or ulp_distance(below, above) <= 2


@pytest.mark.parametrize("function", FUNCTIONS)
@given(x=st.floats(min_value=-30.0, max_value=30.0))
def test_three_arithmetics_agree_within_a_few_units(function: str, x: float) -> None:
    """strict/1, libm/1 and fast are three renderings of the same function."""
    strict, libm, fast = (number(getattr(arithmetic, function)(x)) for arithmetic in (STRICT, LIBM, FAST))
    assert max(ulp_distance(strict, libm), ulp_distance(strict, fast)) <= 4
