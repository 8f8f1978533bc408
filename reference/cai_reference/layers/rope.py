"""Rotary position embedding: features 2k and 2k + 1 are turned by position · θ_k, with θ_k = base^(−2k/width).

Adjacent features make a pair (Su and others, "RoFormer", 2021); other libraries pair feature k with k + width/2.
Position 0 is the identity. θ and the tables come from the arithmetic's exp, log, sin and cos, so that they have
defined bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.layers.errors import OddRopeWidth


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines for consecutive positions, each of shape [positions, width/2]."""

    cosines: Array
    sines: Array


@lru_cache(maxsize=1024)
def rotation(arithmetic: Arithmetic, start: int, positions: int, width: int, base: float) -> Rotation:
    """Return the tables for positions start … start + positions − 1; they are made once and never written to.

    Raises:
        OddRopeWidth: features cannot be paired.
    """
    if width % 2:
        raise OddRopeWidth(width)
    angles = np.arange(start, start + positions, dtype=np.float64)[:, None] * _frequencies(arithmetic, width, base)
    tables = Rotation(arithmetic.cos(angles), arithmetic.sin(angles))
    tables.cosines.flags.writeable = tables.sines.flags.writeable = False
    return tables


@lru_cache(maxsize=64)
def _frequencies(arithmetic: Arithmetic, width: int, base: float) -> Array:
    exponents = (-2.0 * np.arange(width // 2, dtype=np.float64)) / float(width)
    return arithmetic.exp(exponents * arithmetic.log(base))


def turn(x: Array, cosines: Array, sines: Array) -> Array:
    """Turn adjacent pairs counter-clockwise: (l, r) → (l·cos − r·sin, l·sin + r·cos)."""
    left, right = x[..., 0::2], x[..., 1::2]
    result = np.empty(x.shape)
    # Overflow is reported by the tape as an error with a place, not as a warning without one.
    with np.errstate(over="ignore"):
        result[..., 0::2] = left * cosines - right * sines
        result[..., 1::2] = left * sines + right * cosines
    return result + 0.0


def rotate(tape: Tape, x: Variable, start: int, base: float) -> Variable:
    """Turn every row of [..., tokens, width] by its position; row 0 stands at position `start`.

    The gradient is turned back.

    Raises:
        OddRopeWidth: features cannot be paired.
    """
    tokens, width = x.shape[-2:]
    table = rotation(tape.arithmetic, start, tokens, width, base)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (turn(adjoint, table.cosines, -table.sines),)

    return tape.record("rope", turn(x.value, table.cosines, table.sines), (x,), pullback)
