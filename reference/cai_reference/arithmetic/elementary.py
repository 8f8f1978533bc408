"""The elementary functions of `strict/1`: exp, log, log1p, tanh, sin and cos in operations that have one result.

Only +, -, *, / of doubles, comparisons, copies of the sign, and exact powers of two are used, in the written order, so
the bits are the same in every language and on every machine that rounds to nearest and doesn't fuse a product with a
sum. Errors stay below 1 unit in the last place. Nothing depends on the shape or the memory layout of the argument: an
array is cut into blocks only because a block stays in the cache.

`a + b = sum + error` below is exact arithmetic on the error of a sum: the short form is Dekker's (1971), valid for
|a| >= |b|; the long one is Knuth's, valid always. Arguments of the helpers are blocks: arrays with one axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Array, Elementwise
from cai_reference.arithmetic import coefficients as c

Integers: TypeAlias = npt.NDArray[np.int64]

_BLOCK = 8192
_MANTISSA_MASK = (1 << 52) - 1


def _elementwise(block_function: Callable[[Array], Array]) -> Elementwise:
    """Lift a function of blocks to numbers and arrays of any shape; every NaN leaves as the positive quiet NaN."""

    def apply(x: Array | float, /) -> Array:
        values = np.asarray(x, dtype=np.float64)
        flat = values.reshape(-1)
        result = np.empty(flat.shape)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _BLOCK):
                result[start : start + _BLOCK] = block_function(flat[start : start + _BLOCK])
        # one NaN for all, so that digests do not depend on which one an operation made
        result[np.isnan(result)] = np.nan
        return result.reshape(values.shape)

    return apply


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Horner's rule: `((c[n] * x + c[n-1]) * x + ...) * x + c[0]`."""
    # the highest power first, each step rounded twice: multiply, then add
    total = coefficients[-1] * x + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total *= x
        total += coefficient
    return total


def _power_of_two(n: Integers) -> Array:
    """Return 2**n for -1022 <= n <= 1023, built from its exponent bits."""
    # the exponent field of 2**n is n + 1023, its mantissa is 0
    return ((n + 1023) << 52).view(np.float64)


def _scaled(y: Array, n: Integers) -> Array:
    """Return y * 2**n in two steps, of which only the last can round: a subnormal result is rounded once."""
    # 2**n itself may be beyond the doubles where y * 2**n is not
    half = n >> 1
    return y * _power_of_two(half) * _power_of_two(n - half)


def _exp_reduced(x: Array) -> tuple[Integers, Array, Array]:
    """Write exp(x) as 2**n * (1 + r + t): n integer, |r| <= ln(2)/2, t the rest of the series."""
    shifted = x * c.INVERSE_LN2 + c.SHIFT
    # the nearest integer to x / ln 2, read off by adding and taking away 1.5 * 2**52
    k = shifted - c.SHIFT
    n = shifted.view(np.int64) - c.SHIFT_BITS
    # exact: LN2_HIGH has so few bits that its product with k is not rounded
    high = x - k * c.LN2_HIGH
    low = k * c.LN2_LOW
    r = high - low
    # what rounding high - low to r has lost
    lost = (high - r) - low
    t = r * r * _polynomial(r, c.EXP) + lost
    return n, r, t


def _exp(x: Array) -> Array:
    n, r, t = _exp_reduced(np.minimum(np.maximum(x, c.EXP_LOWEST), c.EXP_HIGHEST))
    # 1 + r = head + tail
    head = 1.0 + r
    tail = r - (head - 1.0)
    return _scaled(head + (tail + t), n)


def _split_at_sqrt_half(x: Array) -> tuple[Array, Array]:
    """Write a positive normal x as 2**k * m with sqrt(1/2) <= m < sqrt(2); both exact."""
    # subtracting the bits of sqrt(1/2) moves the exponent border there
    offset = x.view(np.int64) - c.SQRT_HALF_BITS
    m = ((offset & _MANTISSA_MASK) + c.SQRT_HALF_BITS).view(np.float64)
    return (offset >> 52).astype(np.float64), m


def _log_sum(k: Array, f: Array, lost: Array | float) -> Array:
    """Return k * ln(2) + log(1 + f) + lost; log(1 + f) = f - f**2/2 + s * (f**2/2 + R) with s = f / (2 + f)."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    rest = s * (half_square + z * _polynomial(z, c.LOG)) - half_square
    # k * LN2_HIGH + f = head + tail
    high = k * c.LN2_HIGH
    head = high + f
    tail = f - (head - high)
    return head + (tail + (rest + (k * c.LN2_LOW + lost)))


def _log(x: Array) -> Array:
    subnormal = x < c.SMALLEST_NORMAL
    k, m = _split_at_sqrt_half(np.where(subnormal, x * c.TWO_TO_54, x))
    result = _log_sum(np.where(subnormal, k - 54.0, k), m - 1.0, 0.0)
    result = np.where(x == np.inf, np.inf, result)
    result = np.where(x == 0.0, -np.inf, result)
    return np.where(x >= 0.0, result, np.nan)


def _log1p(x: Array) -> Array:
    u = 1.0 + x
    k, m = _split_at_sqrt_half(u)
    # 1 + x = u + lost, and log(u + lost) = log(u) + lost/u to far beyond double precision.
    lost = np.where(x >= 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    # without a power of two, log(1 + x) needs no 1 + x at all: x is f
    near = k == 0.0
    result = _log_sum(k, np.where(near, x, m - 1.0), np.where(near, 0.0, lost))
    result = np.where((x == 0.0) | (x == np.inf), x, result)
    result = np.where(x == -1.0, -np.inf, result)
    return np.where(x >= -1.0, result, np.nan)


def _halves(x: Array) -> tuple[Array, Array]:
    """Veltkamp's split: x = upper + lower, at most 26 bits each."""
    product = c.SPLITTER * x
    upper = product - (product - x)
    return upper, x - upper


def _tanh(x: Array) -> Array:
    # tanh is odd: computed for |x|, the sign is put back at the end
    a = np.minimum(np.abs(x), c.TANH_HIGHEST)
    n, r, t = _exp_reduced(a + a)
    # exp(2a) - 1 = (2**n - 1) + 2**n * r + 2**n * t = e + e_low
    power = _power_of_two(n)
    whole = power - 1.0
    power_r = power * r
    power_t = power * t
    first = whole + power_r
    first_low = power_r - (first - whole)
    e = first + power_t
    e_low = first_low + (power_t - (e - first))
    # exp(2a) + 1 = d + d_low; the long form, because either of e and 2 can be the larger
    d = e + 2.0
    two = d - e
    d_low = ((e - (d - two)) + (2.0 - two)) + e_low
    # (e + e_low) / (d + d_low): a quotient of 26 bits, then what the exact remainder adds
    q, _ = _halves(e / d)
    d_upper, d_lower = _halves(d)
    remainder = (e - q * d_upper) - q * d_lower
    return np.copysign(q + (remainder + (e_low - q * d_low)) / d, x)


def _minus(a: Array, b: Array) -> tuple[Array, Array]:
    """Return difference and error with a - b = difference + error exactly: the long form."""
    difference = a - b
    minus_b = difference - a
    return difference, (a - (difference - minus_b)) - (b + minus_b)


def _quarter_turns(a: Array) -> tuple[Integers, Array, Array]:
    """Write 0 <= a <= ANGLE_LIMIT as n * pi/2 + r + r_low with |r| <= pi/4 (and a rounding)."""
    shifted = a * c.INVERSE_HALF_PI + c.SHIFT
    k = shifted - c.SHIFT
    n = shifted.view(np.int64) - c.SHIFT_BITS
    # Cody and Waite: pi/2 in pieces, so that cancellation loses no bits of the angle
    first = a - k * c.HALF_PI_1
    second, second_error = _minus(first, k * c.HALF_PI_2)
    third, third_error = _minus(second, k * c.HALF_PI_3)
    error = second_error + (third_error - k * c.HALF_PI_4)
    r = third + error
    r_low = error - (r - third)
    return n, r, r_low


def _sin_and_cos(r: Array, r_low: Array) -> tuple[Array, Array]:
    """Return sine and cosine of r + r_low, |r| <= pi/4: Taylor's series."""
    z = r * r
    half_square = 0.5 * z
    head = 1.0 - half_square
    tail = (1.0 - head) - half_square
    cosine = head + (tail + (z * z * _polynomial(z, c.COS) - r * r_low))
    sine = r + (r * (z * _polynomial(z, c.SIN)) + head * r_low)
    return sine, cosine


def _angle(x: Array) -> Array:
    a = np.abs(x)
    return np.where(a <= c.ANGLE_LIMIT, a, np.nan)


def _sin(x: Array) -> Array:
    n, r, r_low = _quarter_turns(_angle(x))
    sine, cosine = _sin_and_cos(r, r_low)
    # odd quarter turns exchange sine and cosine; quarters 2 and 3 change the sign
    value = np.where(n & 1, cosine, sine)
    return np.where((n & 2 != 0) != np.signbit(x), -value, value)


def _cos(x: Array) -> Array:
    n, r, r_low = _quarter_turns(_angle(x))
    sine, cosine = _sin_and_cos(r, r_low)
    # as for the sine, one quarter turn ahead
    value = np.where(n & 1, sine, cosine)
    return np.where((n + 1) & 2 != 0, -value, value)


exp = _elementwise(_exp)
log = _elementwise(_log)
log1p = _elementwise(_log1p)
tanh = _elementwise(_tanh)
sin = _elementwise(_sin)
cos = _elementwise(_cos)
