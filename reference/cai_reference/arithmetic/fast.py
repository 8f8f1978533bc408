"""The operations of `fast`: NumPy's functions and BLAS products, with no promise about bits.

This file adds nothing but silence: IEEE results for poles and overflow come without NumPy's warnings.
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Array, Elementwise
from cai_reference.errors import ArithmeticFault


def _silent(function: np.ufunc) -> Elementwise:
    def apply(x: Array | float, /) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(np.asarray(x, dtype=np.float64)))

    return apply


exp = _silent(np.exp)
log = _silent(np.log)
log1p = _silent(np.log1p)
tanh = _silent(np.tanh)
sin = _silent(np.sin)
cos = _silent(np.cos)


def matmul(a: Array, b: Array) -> Array:
    """Multiply `[..., n, k]` by `[..., k, m]` with BLAS, giving `[..., n, m]`; raises `matmul-shapes`."""
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.ndim < 2 or right.ndim < 2:
        raise ArithmeticFault("matmul-shapes", left=left.shape, right=right.shape)
    try:
        with np.errstate(all="ignore"):
            # BLAS, in an order of its own
            return np.asarray(left @ right)
    except ValueError:
        raise ArithmeticFault("matmul-shapes", left=left.shape, right=right.shape) from None


def sum_(x: Array | float, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Sum `x` over `axis` (None: all) in whatever order NumPy likes."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sum(np.asarray(x, dtype=np.float64), axis=axis, keepdims=keepdims))
