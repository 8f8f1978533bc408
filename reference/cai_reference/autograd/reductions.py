"""Operations along one axis: sum, mean, maximum.

Sums ascend from +0.0. The gradient of a maximum goes to the first of equal maxima (course, chapters 10 and 15).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd.errors import EmptyMaxAxis, EmptyMeanAxis, ReductionAxisOutOfBounds
from cai_reference.autograd.graph import Tape, Variable


def sum_over(tape: Tape, x: Variable, axis: int) -> Variable:
    """Return the sum along `axis`, which disappears.

    Raises:
        ReductionAxisOutOfBounds: the axis is not there.
    """
    _check_axis(x, axis)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.broadcast_to(np.expand_dims(adjoint, axis), x.shape),)

    return tape.record("sum", tape.arithmetic.sum(x.value, axis=axis), (x,), pullback)


def mean_over(tape: Tape, x: Variable, axis: int) -> Variable:
    """Return the sum along `axis` divided by its length; the axis disappears.

    Raises:
        ReductionAxisOutOfBounds: the axis is not there.
        EmptyMeanAxis: the axis has no elements.
    """
    _check_axis(x, axis)
    length = x.shape[axis]
    if length == 0:
        raise EmptyMeanAxis(axis)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.broadcast_to(np.expand_dims(adjoint / length, axis), x.shape),)

    return tape.record("mean", tape.arithmetic.sum(x.value, axis=axis) / length, (x,), pullback)


def mean_of(tape: Tape, values: Sequence[Variable]) -> Variable:
    """Return the mean of values of one shape: their sum, first to last, divided by their number."""
    count = len(values)
    total = np.zeros(values[0].shape)
    for value in values:
        total = total + value.value

    def pullback(adjoint: Array) -> list[Array]:
        return [adjoint / count] * count

    return tape.record("mean of values", total / count, tuple(values), pullback)


def maximum_over(tape: Tape, x: Variable, axis: int) -> Variable:
    """Return the maximum along `axis`, which disappears.

    Raises:
        ReductionAxisOutOfBounds: the axis is not there.
        EmptyMaxAxis: the axis has no elements.
    """
    _check_axis(x, axis)
    if x.shape[axis] == 0:
        raise EmptyMaxAxis(axis)
    winner = np.expand_dims(np.argmax(x.value, axis=axis), axis)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(x.shape)
        np.put_along_axis(gradient, winner, np.expand_dims(adjoint, axis), axis)
        return (gradient,)

    value = np.take_along_axis(x.value, winner, axis).squeeze(axis)
    return tape.record("maximum", value, (x,), pullback)


def _check_axis(x: Variable, axis: int) -> None:
    if not 0 <= axis < len(x.shape):
        raise ReductionAxisOutOfBounds(axis, len(x.shape))
