"""Sums and matrix products in one fixed order: ascending, from +0.0, each product rounded before it is added.

This is the common half of `strict/1` and `libm/1`. There is no BLAS here, no pairwise summation and no fused
multiply-add, so a result does not depend on shape, memory layout, thread count or batch.
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic.errors import MatmulShapes
from cai_reference.arithmetic.types import Array


def ascending_sum(x: Array | float, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Sum over `axis` in ascending order; several axes are summed as one, row-major.

    `np.add.accumulate` is sequential by definition: its element k is element k-1 plus x[k]. It starts from x[0] instead of
    +0.0 + x[0]; the two differ only while every term so far is -0.0, which the final `+ 0.0` turns into +0.0.

    Arguments: `x` of any shape; `axis` an axis, distinct axes, or None for all; `keepdims` keeps summed axes with length 1.
    Returns: the sum; a sum of no terms is +0.0.
    """
    values = np.asarray(x, dtype=np.float64)
    if axis is None:
        axes = tuple(range(values.ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(sorted(np.lib.array_utils.normalize_axis_tuple(given, values.ndim)))
    kept = tuple(k for k in range(values.ndim) if k not in axes)
    shape = tuple(values.shape[k] for k in kept)
    rows = values.transpose(kept + axes).reshape((*shape, -1)) if values.size else np.zeros((*shape, 0))
    total = np.add.accumulate(rows, axis=-1)[..., -1] + 0.0 if rows.shape[-1] else np.zeros(shape)
    if keepdims:
        total = np.asarray(total).reshape([1 if k in axes else n for k, n in enumerate(values.shape)])
    return np.asarray(total)


def ascending_matmul(a: Array, b: Array) -> Array:
    """Multiply matrices: each element is +0.0 plus the rounded products in ascending order of the inner index.

    Arguments: `a` `[..., n, k]`, `b` `[..., k, m]`; leading axes broadcast by trailing alignment.
    Returns: `[..., n, m]`.
    Raises: MatmulShapes.
    """
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise MatmulShapes(left.shape, right.shape)
    try:
        leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise MatmulShapes(left.shape, right.shape) from None
    total = np.zeros((*leading, left.shape[-2], right.shape[-1]))
    for k in range(left.shape[-1]):
        total += left[..., :, k, None] * right[..., k, None, :]
    return total
