"""The matrix product: [..., n, k] × [..., k, m] → [..., n, m], leading axes broadcast.

Every cell is the ascending sum of rounded products that the arithmetic defines, one row alone or many at once (course,
chapter 11).
"""

from __future__ import annotations

import math

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd.elementwise import broadcast_shape, unbroadcast
from cai_reference.autograd.errors import (
    IncompatibleBatch,
    IncompatibleBroadcast,
    InnerDimensionMismatch,
    LeftRankTooSmall,
    RightRankTooSmall,
)
from cai_reference.autograd.graph import Tape, Variable


def matmul(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left × right over the last two axes.

    Raises:
        LeftRankTooSmall, RightRankTooSmall: an operand has fewer than 2 axes.
        InnerDimensionMismatch: the columns on the left are not as many as the rows on the right.
        IncompatibleBatch: the leading axes cannot be aligned.
    """
    if len(left.shape) < 2:
        raise LeftRankTooSmall(len(left.shape))
    if len(right.shape) < 2:
        raise RightRankTooSmall(len(right.shape))
    if left.shape[-1] != right.shape[-2]:
        raise InnerDimensionMismatch(left.shape[-1], right.shape[-2])
    try:
        broadcast_shape(left.shape[:-2], right.shape[:-2])
    except IncompatibleBroadcast as error:
        raise IncompatibleBatch(error.axis, error.left, error.right) from None
    arithmetic = tape.arithmetic
    if len(right.shape) == 2:
        return _rows_times_matrix(tape, left, right)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        toward_left = arithmetic.matmul(adjoint, np.swapaxes(right.value, -1, -2))
        toward_right = arithmetic.matmul(np.swapaxes(left.value, -1, -2), adjoint)
        return (
            unbroadcast(arithmetic, toward_left, left.shape),
            unbroadcast(arithmetic, toward_right, right.shape),
        )

    return tape.record("matmul", arithmetic.matmul(left.value, right.value), (left, right), pullback)


def _rows_times_matrix(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Multiply all rows [..., n, k] with one matrix [k, m].

    The rows make one long axis, so that the gradient of the matrix is one ascending sum over all of them, row-major.
    """
    arithmetic = tape.arithmetic
    count = math.prod(left.shape[:-1])
    rows = left.value.reshape(count, left.shape[-1])
    value = arithmetic.matmul(rows, right.value).reshape(*left.shape[:-1], right.shape[1])

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        flat = adjoint.reshape(count, right.shape[1])
        toward_left = arithmetic.matmul(flat, right.value.T)
        return toward_left.reshape(left.shape), arithmetic.matmul(rows.T, flat)

    return tape.record("matmul", value, (left, right), pullback)
