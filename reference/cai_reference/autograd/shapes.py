"""Operations that only move elements: reshape, swap two axes, and gather rows of a table.

Gathering is what a token embedding does; its gradient adds one contribution an occurrence, in row-major order of the
indices (course, chapters 9 and 16).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd.errors import (
    DataLengthMismatch,
    GatherIndexCountMismatch,
    GatherIndexOutOfBounds,
    GatherTableRank,
    IndexOutOfBounds,
    Shape,
)
from cai_reference.autograd.graph import Tape, Variable


def reshape(tape: Tape, x: Variable, shape: Shape) -> Variable:
    """Return the same elements, row-major, in another shape.

    Raises:
        DataLengthMismatch: the shape holds another number of elements.
    """
    expected = int(np.prod(shape, dtype=np.int64))
    if expected != x.value.size:
        raise DataLengthMismatch(expected, x.value.size)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (adjoint.reshape(x.shape),)

    return tape.record("reshape", x.value.reshape(shape), (x,), pullback)


def swap_axes(tape: Tape, x: Variable, first: int, second: int) -> Variable:
    """Exchange two axes.

    Raises:
        IndexOutOfBounds: an axis is not there; `axis` says which of the two, `dimension` how many there are.
    """
    rank = len(x.shape)
    for place, axis in enumerate((first, second)):
        if not 0 <= axis < rank:
            raise IndexOutOfBounds(place, axis, rank)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.swapaxes(adjoint, first, second),)

    return tape.record("swap axes", np.swapaxes(x.value, first, second), (x,), pullback)


def gather(tape: Tape, table: Variable, indices: Sequence[int], shape: Shape) -> Variable:
    """Return rows of a table: indices of `shape`, given flat, become values of shape [*shape, width].

    Raises:
        GatherTableRank: the table does not have 2 axes.
        GatherIndexCountMismatch: there are not as many indices as `shape` holds.
        GatherIndexOutOfBounds: an index is not a row.
    """
    if len(table.shape) != 2:
        raise GatherTableRank(len(table.shape))
    rows, width = table.shape
    expected = int(np.prod(shape, dtype=np.int64))
    if expected != len(indices):
        raise GatherIndexCountMismatch(expected, len(indices))
    for position, index in enumerate(indices):
        if not 0 <= index < rows:
            raise GatherIndexOutOfBounds(position, index, rows)
    places = np.asarray(indices, dtype=np.intp)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(table.shape)
        for index, piece in zip(places, adjoint.reshape(-1, width), strict=True):
            gradient[index] += piece
        return (gradient,)

    return tape.record("gather", table.value[places].reshape(*shape, width), (table,), pullback)
