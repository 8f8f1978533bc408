"""The constants of `strict/1`, as hexadecimal doubles, each with the rule that gives it.

All are truncations or roundings to nearest of exact mathematical values, so anyone can derive them again; none comes
from a fit. What is done with them is in `elementary`.
"""

from __future__ import annotations


def _doubles(table: str) -> tuple[float, ...]:
    """Read one hexadecimal double a line; what follows it on the line is its exact value, for the reader."""
    return tuple(float.fromhex(line.split()[0]) for line in table.split("\n") if line.strip())


# Adding this to a real of magnitude below 2**51, and subtracting it again, rounds the real to the nearest integer (ties
# to even). The sum's bits are SHIFT_BITS plus that integer.
SHIFT = float.fromhex("0x1.8p+52")
SHIFT_BITS = 0x4338_0000_0000_0000

# ln 2 in two parts: the first 32 significant bits (so that its product with an 11-bit integer is exact), and the rest
# rounded to nearest.
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")

# 1 / ln 2, rounded to nearest.
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")

# Beyond these arguments exp is 0 or infinite, whatever the argument.
EXP_LOWEST = -746.0
EXP_HIGHEST = 710.0

# From here on tanh is 1, rounded to nearest.
TANH_HIGHEST = 22.0

# The bits of 0x1.6a09e667f3bcdp-1, which is sqrt(1/2) rounded to nearest: log takes its argument from there to twice
# that.
SQRT_HALF_BITS = 0x3FE6_A09E_667F_3BCD

# The smallest normal double, and the exact factor that makes every subnormal one normal.
SMALLEST_NORMAL = float.fromhex("0x1p-1022")
TWO_TO_54 = float.fromhex("0x1p+54")

# pi/2 in four parts: three of 33 bits each (so that their products with a 20-bit integer are exact), each cut from what
# the earlier ones leave, and the rest rounded to nearest.
HALF_PI_1 = float.fromhex("0x1.921fb54400000p+0")
HALF_PI_2 = float.fromhex("0x1.0b4611a600000p-34")
HALF_PI_3 = float.fromhex("0x1.3198a2e000000p-69")
HALF_PI_4 = float.fromhex("0x1.b839a252049c1p-104")

# 2 / pi, rounded to nearest.
INVERSE_HALF_PI = float.fromhex("0x1.45f306dc9c883p-1")

# sin and cos are defined up to this magnitude and NaN beyond it.
ANGLE_LIMIT = 1.0e6

# 2**27 + 1: Veltkamp's factor, which splits a double into two halves of at most 26 bits each.
SPLITTER = 134217729.0

# (exp(r) - 1 - r) / r**2, Taylor: 1/(n+2)! for n = 0, 1, ...; lowest power first.
EXP = _doubles(
    """
    0x1.0000000000000p-1      1/2!
    0x1.5555555555555p-3      1/3!
    0x1.5555555555555p-5      1/4!
    0x1.1111111111111p-7      1/5!
    0x1.6c16c16c16c17p-10     1/6!
    0x1.a01a01a01a01ap-13     1/7!
    0x1.a01a01a01a01ap-16     1/8!
    0x1.71de3a556c734p-19     1/9!
    0x1.27e4fb7789f5cp-22     1/10!
    0x1.ae64567f544e4p-26     1/11!
    0x1.1eed8eff8d898p-29     1/12!
    0x1.6124613a86d09p-33     1/13!
    0x1.93974a8c07c9dp-37     1/14!
    """
)

# (log((1+s)/(1-s)) - 2*s) / s**3 in powers of s**2, Taylor: 2/(2n+1) for n = 1, 2, ...; lowest power first.
LOG = _doubles(
    """
    0x1.5555555555555p-1      2/3
    0x1.999999999999ap-2      2/5
    0x1.2492492492492p-2      2/7
    0x1.c71c71c71c71cp-3      2/9
    0x1.745d1745d1746p-3      2/11
    0x1.3b13b13b13b14p-3      2/13
    0x1.1111111111111p-3      2/15
    0x1.e1e1e1e1e1e1ep-4      2/17
    0x1.af286bca1af28p-4      2/19
    0x1.8618618618618p-4      2/21
    """
)

# (sin(r) - r) / r**3 in powers of r**2, Taylor: (-1)**n/(2n+1)! for n = 1, 2, ...; lowest power first.
SIN = _doubles(
    """
    -0x1.5555555555555p-3     -1/3!
    0x1.1111111111111p-7      +1/5!
    -0x1.a01a01a01a01ap-13    -1/7!
    0x1.71de3a556c734p-19     +1/9!
    -0x1.ae64567f544e4p-26    -1/11!
    0x1.6124613a86d09p-33     +1/13!
    -0x1.ae7f3e733b81fp-41    -1/15!
    0x1.952c77030ad4ap-49     +1/17!
    """
)

# (cos(r) - 1 + r**2/2) / r**4 in powers of r**2, Taylor: (-1)**n/(2n)! for n = 2, 3, ...; lowest power first.
COS = _doubles(
    """
    0x1.5555555555555p-5      +1/4!
    -0x1.6c16c16c16c17p-10    -1/6!
    0x1.a01a01a01a01ap-16     +1/8!
    -0x1.27e4fb7789f5cp-22    -1/10!
    0x1.1eed8eff8d898p-29     +1/12!
    -0x1.93974a8c07c9dp-37    -1/14!
    0x1.ae7f3e733b81fp-45     +1/16!
    -0x1.6827863b97d97p-53    -1/18!
    """
)
