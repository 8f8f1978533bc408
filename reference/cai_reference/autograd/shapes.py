"""Operations that only move elements: reshape, swap, slice, concatenate, permute, shift, gather rows of a table.

Gathering is what a token embedding does; its gradient adds one contribution an occurrence, in row-major order of the
indices (course, chapters 9 and 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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


def gather(
    tape: Tape, table: Variable, indices: Sequence[int], shape: Shape, zero_index: int | None = None
) -> Variable:
    """Return rows of a table: indices of `shape`, given flat, become values of shape [*shape, width].

    At `zero_index`, where there is one, the result is +0.0 and no gradient flows.

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
    rows_taken = table.value[places]
    rows_taken[places == zero_index] = 0.0

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(table.shape)
        for index, piece in zip(places.tolist(), adjoint.reshape(-1, width), strict=True):
            if index != zero_index:
                gradient[index] += piece
        return (gradient,)

    return tape.record("gather", rows_taken.reshape(*shape, width), (table,), pullback)


def channels(tape: Tape, x: Variable, start: int, stop: int) -> Variable:
    """Return the features start … stop − 1 of the last axis.

    Raises:
        IndexOutOfBounds: a border lies beyond the axis.
    """
    length = x.shape[-1]
    for border in (start, stop):
        if not 0 <= border <= length:
            raise IndexOutOfBounds(len(x.shape) - 1, border, length)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(x.shape)
        gradient[..., start:stop] = adjoint
        return (gradient,)

    return tape.record("channels", x.value[..., start:stop], (x,), pullback)


def rows(tape: Tape, x: Variable, start: int, stop: int) -> Variable:
    """Return rows start … stop − 1 of the last axis but one.

    Raises:
        IndexOutOfBounds: a border lies beyond the axis.
    """
    length = x.shape[-2]
    for border in (start, stop):
        if not 0 <= border <= length:
            raise IndexOutOfBounds(len(x.shape) - 2, border, length)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.zeros(x.shape)
        gradient[..., start:stop, :] = adjoint
        return (gradient,)

    return tape.record("rows", x.value[..., start:stop, :], (x,), pullback)


def concatenate(tape: Tape, parts: Sequence[Variable]) -> Variable:
    """Lay values side by side along the last axis, in order.

    Raises:
        DataLengthMismatch: the other axes are not the same.
    """
    first = parts[0].shape
    for part in parts:
        if part.shape[:-1] != first[:-1]:
            raise DataLengthMismatch(int(np.prod(first[:-1])), int(np.prod(part.shape[:-1])))
    borders = np.cumsum([0, *(part.shape[-1] for part in parts)]).tolist()

    def pullback(adjoint: Array) -> list[Array]:
        return [adjoint[..., start:stop] for start, stop in pairwise(borders)]

    return tape.record("concatenate", np.concatenate([part.value for part in parts], axis=-1), tuple(parts), pullback)


def permute_channels(tape: Tape, x: Variable, sources: Sequence[int]) -> Variable:
    """Reorder the last axis: feature i of the result is feature `sources[i]` of `x`. `sources` is a permutation."""
    places = np.asarray(sources, dtype=np.intp)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.empty(x.shape)
        gradient[..., places] = adjoint
        return (gradient,)

    return tape.record("permute", x.value[..., places], (x,), pullback)


def previous(tape: Tape, x: Variable) -> Variable:
    """Shift [..., tokens, width] by one token: row t is row t − 1 of `x`, row 0 is zero."""

    def shifted(values: Array, step: int) -> Array:
        result = np.zeros(values.shape)
        if step > 0:
            result[..., 1:, :] = values[..., :-1, :]
        else:
            result[..., :-1, :] = values[..., 1:, :]
        return result

    def pullback(adjoint: Array) -> tuple[Array]:
        return (shifted(adjoint, -1),)

    return tape.record("previous", shifted(x.value, 1), (x,), pullback)
