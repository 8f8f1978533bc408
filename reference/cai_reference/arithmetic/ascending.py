"""Sums and matrix products in one fixed order: ascending, from +0.0, each product rounded before it is added.

This is the common half of `strict/1` and `libm/1`. There is no BLAS here, no pairwise summation and no fused
multiply-add, so a result does not depend on shape, memory layout, thread count or batch.

Each operation has two ways of computing the same bits. With many results, a loop over the terms adds one term to all
results at once. With few results that loop would spend its time in Python, so `np.add.accumulate` runs along the terms
instead: it is sequential by definition, its element k being element k-1 plus term k. It starts from the first term
where the loop starts from +0.0; the two differ only while every term so far is -0.0, and the final `+ 0.0` mends that.
"""

from __future__ import annotations

import math

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.errors import ArithmeticFault

# Below so many results the accumulating way is the faster one.
_FEW = 256

# It needs room for every product; beyond so many, the loop is used whatever the number of results.
_MANY_PRODUCTS = 1 << 22


def ascending_sum(x: Array | float, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Sum over `axis` in ascending order; several axes are summed as one, row-major.

    Arguments: `x` of any shape; `axis` an axis, distinct axes, or None for all; `keepdims` keeps summed axes, length 1.
    Returns: the sum; a sum of no terms is +0.0.
    Raises: numpy.exceptions.AxisError for an axis that `x` lacks, ValueError for one given twice.
    """
    values = np.asarray(x, dtype=np.float64)
    given = tuple(range(values.ndim)) if axis is None else axis
    axes = tuple(sorted(np.lib.array_utils.normalize_axis_tuple(given, values.ndim)))
    # the summed axes go last, in ascending order: row-major over all of them
    kept = tuple(k for k in range(values.ndim) if k not in axes)
    shape = tuple(values.shape[k] for k in kept)
    terms = math.prod(values.shape[k] for k in axes)
    total = _sum_last(values.transpose(kept + axes).reshape((*shape, terms)))
    if keepdims:
        return total.reshape(tuple(1 if k in axes else length for k, length in enumerate(values.shape)))
    return total


def _sum_last(rows: Array) -> Array:
    """Sum `[..., terms]` over its last axis."""
    terms = rows.shape[-1]
    total = np.zeros(rows.shape[:-1])
    with np.errstate(all="ignore"):
        if total.size >= _FEW or terms == 0:
            # ascending, one rounded addition a term: this order is what strict/1 defines
            for k in range(terms):
                total += rows[..., k]
            return total
        # sequential by definition; the + 0.0 turns a sum of negative zeros into +0.0
        return np.asarray(np.add.accumulate(rows, axis=-1)[..., -1] + 0.0)


def ascending_matmul(a: Array, b: Array) -> Array:
    """Multiply matrices: each element is +0.0 plus the rounded products in ascending order of the inner index.

    Arguments: `a` `[..., n, k]`, `b` `[..., k, m]`; leading axes broadcast by trailing alignment.
    Returns: `[..., n, m]`.
    Raises: `matmul-shapes`.
    """
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise ArithmeticFault("matmul-shapes", left=left.shape, right=right.shape)
    try:
        leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ArithmeticFault("matmul-shapes", left=left.shape, right=right.shape) from None
    terms = left.shape[-1]
    total = np.zeros((*leading, left.shape[-2], right.shape[-1]))
    with np.errstate(all="ignore"):
        if total.size >= _FEW or total.size * terms > _MANY_PRODUCTS or terms == 0:
            return _add_products(total, left, right)
        # each product is rounded before it is added: no fused multiply-add
        products = left[..., :, :, None] * right[..., None, :, :]
        return np.asarray(np.add.accumulate(products, axis=-2)[..., -1, :] + 0.0)


def _add_products(total: Array, left: Array, right: Array) -> Array:
    """Add to `total` `[..., n, m]` one outer product after the other, ascending.

    NumPy is fastest along a long last axis, so where there are more rows than columns the transpose is computed; each
    element still sees the same products in the same order.
    """
    if total.shape[-2] > total.shape[-1]:
        left, right = np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2)
        return np.ascontiguousarray(np.swapaxes(_add_products(np.swapaxes(total, -1, -2).copy(), left, right), -1, -2))
    # axis 0 becomes the inner index, so that the loop takes one outer product a step
    columns = np.ascontiguousarray(np.moveaxis(left, -1, 0))[..., :, None]
    rows = np.ascontiguousarray(np.moveaxis(right, -2, 0))[..., None, :]
    product = np.empty_like(total)
    for column, row in zip(columns, rows, strict=True):
        np.multiply(column, row, out=product)
        total += product
    return total
