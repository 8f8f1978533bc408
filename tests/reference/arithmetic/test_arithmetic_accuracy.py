"""How close `strict/1` comes to the exact values, which mpmath and the long doubles of the C library give."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.arithmetic.vectors import FUNCTIONS, strict_vectors

Arguments = Callable[[str, int], Array]

LIMIT = 2.0


def _errors(function: str, arguments: Array, results: Array) -> Array:
    """Errors in units in the last place of the result, for finite results."""
    exact = getattr(mpmath, function)
    with mpmath.workprec(160):
        return np.array(
            [
                float(abs(mpmath.mpf(y) - exact(mpmath.mpf(x))) / math.ulp(y))
                for x, y in zip(arguments.tolist(), results.tolist(), strict=True)
            ]
        )


def _finite(function: str, arguments: Array) -> tuple[Array, Array]:
    results = getattr(STRICT, function)(arguments)
    finite = np.isfinite(arguments) & np.isfinite(results)
    return arguments[finite], results[finite]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_stay_below_two_units(function: str, arguments: Arguments) -> None:
    """A few thousand arguments of every kind stay within 2 ULP of the exact value."""
    x, y = _finite(function, arguments(function, 2_000))
    assert _errors(function, x, y).max() <= LIMIT


@pytest.mark.parametrize(
    "function",
    [pytest.param(name, marks=() if name in ("exp", "sin") else pytest.mark.exhaustive) for name in FUNCTIONS],
)
def test_worst_of_a_million_stays_below_two_units(function: str, arguments: Arguments) -> None:
    """Long doubles pick the worst of a million arguments, mpmath measures them: within 2 ULP."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is no wider than double here, so it cannot screen")
    x, y = _finite(function, arguments(function, 10**6))
    screened = np.abs(y - getattr(np, function)(x.astype(np.longdouble))) / np.spacing(np.abs(y))
    worst = np.argpartition(screened, -200)[-200:]
    assert _errors(function, x[worst], y[worst]).max() <= LIMIT


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shipped_results_stay_below_two_units(function: str) -> None:
    """The shipped vectors are within 2 ULP of the exact values, so they don't merely repeat the code."""
    (group,) = (group for group in strict_vectors().functions if group.function == function)
    finite = np.isfinite(group.arguments) & np.isfinite(group.results)
    assert _errors(function, group.arguments[finite], group.results[finite]).max() <= LIMIT


def test_smallest_reduced_angle_keeps_its_digits() -> None:
    """The double closest to a multiple of pi/2 has a cosine near 2**-60, and still within 1 ULP."""
    x = np.array([45.553093477052])
    y = STRICT.cos(x)
    assert 2.0**-62 < abs(y[0]) < 2.0**-59
    assert _errors("cos", x, y).max() <= 1.0
