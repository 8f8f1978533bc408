"""Operations of which models are made, each with its own gradient: elementwise, matrix product, mean, moved elements.

Shapes are aligned from the right; a length of 1 repeats, and the gradient of what was repeated is the ascending sum
over the repetitions. Every cell of a product is the ascending sum of rounded products that the arithmetic defines, one
row alone or many at once. Gathering is what a token embedding does; its gradient adds one contribution an occurrence,
in row-major order of the indices (course, chapters 9 to 11, 14 to 16 and 20).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.errors import AutogradError, Shape


def add(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left + right.

    Raises:
        AutogradError (incompatible-broadcast): the shapes cannot be aligned.
    """
    broadcast_shape(left.shape, right.shape)
    value = quietly(np.add, left.value, right.value)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        return (unbroadcast(tape.arithmetic, adjoint, left.shape), unbroadcast(tape.arithmetic, adjoint, right.shape))

    return tape.record("add", value, (left, right), pullback)


def multiply(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left · right, elementwise.

    Raises:
        AutogradError (incompatible-broadcast): the shapes cannot be aligned.
    """
    broadcast_shape(left.shape, right.shape)
    value = quietly(np.multiply, left.value, right.value)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        return (
            unbroadcast(tape.arithmetic, quietly(np.multiply, adjoint, right.value), left.shape),
            unbroadcast(tape.arithmetic, quietly(np.multiply, adjoint, left.value), right.shape),
        )

    return tape.record("multiply", value, (left, right), pullback)


def sigmoid(arithmetic: Arithmetic, x: Array) -> Array:
    """Return 1 / (1 + exp(−x)), through exp of a number that is never positive.

    For x ≥ 0 (−0.0 included) this is 1 / (1 + exp(−x)), below it is e / (1 + e) with e = exp(x).
    """
    # never exp of a positive number, so it cannot overflow
    small = arithmetic.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def silu(tape: Tape, x: Variable) -> Variable:
    """Return x · σ(x), whose derivative is σ(x) · (1 + x · (1 − σ(x)))."""
    gate = sigmoid(tape.arithmetic, x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (quietly(np.multiply, adjoint, gate * (1.0 + x.value * (1.0 - gate))),)

    return tape.record("silu", x.value * gate, (x,), pullback)


def scale(tape: Tape, x: Variable, factor: float) -> Variable:
    """Return x · factor."""

    def pullback(adjoint: Array) -> tuple[Array]:
        return (quietly(np.multiply, adjoint, np.asarray(factor)),)

    return tape.record("scale", quietly(np.multiply, x.value, np.asarray(factor)), (x,), pullback)


def broadcast_shape(left: Shape, right: Shape) -> Shape:
    """Return the shape to which two shapes align, from the right.

    Raises:
        AutogradError (incompatible-broadcast): two lengths differ and neither is 1.
    """
    rank = max(len(left), len(right))
    aligned_left = (1,) * (rank - len(left)) + left
    aligned_right = (1,) * (rank - len(right)) + right
    shape: list[int] = []
    for axis, (one, other) in enumerate(zip(aligned_left, aligned_right, strict=True)):
        if one != other and 1 not in (one, other):
            raise AutogradError("incompatible-broadcast", axis=axis, left=one, right=other)
        shape.append(other if one == 1 else one)
    return tuple(shape)


def unbroadcast(arithmetic: Arithmetic, adjoint: Array, shape: Shape) -> Array:
    """Sum an adjoint over the axes along which a value of `shape` was repeated."""
    leading = adjoint.ndim - len(shape)
    repeated = tuple(range(leading)) + tuple(
        leading + axis for axis, length in enumerate(shape) if length == 1 and adjoint.shape[leading + axis] != 1
    )
    if not repeated:
        return adjoint
    # ascending over all repetitions, row-major
    return arithmetic.sum(adjoint, axis=repeated, keepdims=True).reshape(shape)


def quietly(operation: np.ufunc, left: Array, right: Array) -> Array:
    """Run an operation without NumPy's warnings: overflow is reported by the tape, as an error with a place."""
    with np.errstate(over="ignore", under="ignore"):
        result: Array = operation(left, right)
    return result


def matmul(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left × right over the last two axes.

    Raises:
        AutogradError (left-rank-too-small, right-rank-too-small): an operand has fewer than 2 axes.
        AutogradError (inner-dimension-mismatch): the columns on the left are not as many as the rows on the right.
        AutogradError (incompatible-batch): the leading axes cannot be aligned.
    """
    if len(left.shape) < 2:
        raise AutogradError("left-rank-too-small", rank=len(left.shape))
    if len(right.shape) < 2:
        raise AutogradError("right-rank-too-small", rank=len(right.shape))
    if left.shape[-1] != right.shape[-2]:
        raise AutogradError("inner-dimension-mismatch", left=left.shape[-1], right=right.shape[-2])
    try:
        broadcast_shape(left.shape[:-2], right.shape[:-2])
    except AutogradError as error:
        if error.code != "incompatible-broadcast":
            raise
        raise AutogradError(
            "incompatible-batch", axis=error.fields["axis"], left=error.fields["left"], right=error.fields["right"]
        ) from None
    arithmetic = tape.arithmetic
    if len(right.shape) == 2:
        return _rows_times_matrix(tape, left, right)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        # d(AB): dA = g Bᵀ, dB = Aᵀ g; both in the order of strict/1
        toward_left = arithmetic.matmul(adjoint, np.swapaxes(right.value, -1, -2))
        toward_right = arithmetic.matmul(np.swapaxes(left.value, -1, -2), adjoint)
        return (unbroadcast(arithmetic, toward_left, left.shape), unbroadcast(arithmetic, toward_right, right.shape))

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


def mean_of(tape: Tape, values: Sequence[Variable]) -> Variable:
    """Return the mean of values of one shape: their sum, first to last, divided by their number."""
    count = len(values)
    # from +0.0, as every sum
    total = np.zeros(values[0].shape)
    for value in values:
        total = total + value.value

    def pullback(adjoint: Array) -> list[Array]:
        return [adjoint / count] * count

    return tape.record("mean of values", total / count, tuple(values), pullback)


def reshape(tape: Tape, x: Variable, shape: Shape) -> Variable:
    """Return the same elements, row-major, in another shape.

    Raises:
        AutogradError (data-length-mismatch): the shape holds another number of elements.
    """
    expected = int(np.prod(shape, dtype=np.int64))
    if expected != x.value.size:
        raise AutogradError("data-length-mismatch", expected=expected, actual=x.value.size)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (adjoint.reshape(x.shape),)

    return tape.record("reshape", x.value.reshape(shape), (x,), pullback)


def swap_axes(tape: Tape, x: Variable, first: int, second: int) -> Variable:
    """Exchange two axes.

    Raises:
        AutogradError (index-out-of-bounds): an axis is not there; `axis` says which of the two, `dimension` how many
            there are.
    """
    rank = len(x.shape)
    for place, axis in enumerate((first, second)):
        if not 0 <= axis < rank:
            raise AutogradError("index-out-of-bounds", axis=place, index=axis, dimension=rank)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.swapaxes(adjoint, first, second),)

    return tape.record("swap axes", np.swapaxes(x.value, first, second), (x,), pullback)


def gather(
    tape: Tape, table: Variable, indices: Sequence[int], shape: Shape, zero_index: int | None = None
) -> Variable:
    """Return rows of a table: indices of `shape`, given flat, become values of shape [*shape, width].

    At `zero_index`, where there is one, the result is +0.0 and no gradient flows.

    Raises:
        AutogradError (gather-table-rank): the table does not have 2 axes.
        AutogradError (gather-index-count-mismatch): there are not as many indices as `shape` holds.
        AutogradError (gather-index-out-of-bounds): an index is not a row.
    """
    if len(table.shape) != 2:
        raise AutogradError("gather-table-rank", rank=len(table.shape))
    rows, width = table.shape
    expected = int(np.prod(shape, dtype=np.int64))
    if expected != len(indices):
        raise AutogradError("gather-index-count-mismatch", expected=expected, actual=len(indices))
    for position, index in enumerate(indices):
        if not 0 <= index < rows:
            raise AutogradError("gather-index-out-of-bounds", position=position, index=index, rows=rows)
    places = np.asarray(indices, dtype=np.intp)
    rows_taken = table.value[places]
    # never equal where zero_index is None
    rows_taken[places == zero_index] = 0.0

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(table.shape)
        for index, piece in zip(places.tolist(), adjoint.reshape(-1, width), strict=True):
            if index != zero_index:
                # one occurrence after the other, row-major: a repeated id adds up in this order
                gradient[index] += piece
        return (gradient,)

    return tape.record("gather", rows_taken.reshape(*shape, width), (table,), pullback)


def rows(tape: Tape, x: Variable, start: int, stop: int) -> Variable:
    """Return rows start … stop − 1 of the last axis but one.

    Raises:
        AutogradError (index-out-of-bounds): a border lies beyond the axis.
    """
    length = x.shape[-2]
    for border in (start, stop):
        if not 0 <= border <= length:
            raise AutogradError("index-out-of-bounds", axis=len(x.shape) - 2, index=border, dimension=length)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(x.shape)
        gradient[..., start:stop, :] = adjoint
        return (gradient,)

    return tape.record("rows", x.value[..., start:stop, :], (x,), pullback)
