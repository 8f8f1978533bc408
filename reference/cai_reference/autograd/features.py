"""Operations that only some models need: more nonlinear functions, means, cut and joined features, shifted tokens.

Gradients and refusals are as in `operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.operations import quietly, sigmoid
from cai_reference.autograd.probability import check_classes, normalize_rows, softmax_pullback
from cai_reference.errors import AutogradError, Shape


def tanh(tape: Tape, x: Variable) -> Variable:
    """Return tanh x, whose derivative is 1 − tanh² x."""
    value = tape.arithmetic.tanh(x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (quietly(np.multiply, adjoint, 1.0 - value * value),)

    return tape.record("tanh", value, (x,), pullback)


def logistic(tape: Tape, x: Variable) -> Variable:
    """Return σ(x), whose derivative is σ(x) · (1 − σ(x))."""
    value = sigmoid(tape.arithmetic, x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (quietly(np.multiply, adjoint, value * (1.0 - value)),)

    return tape.record("logistic", value, (x,), pullback)


def relu(tape: Tape, x: Variable) -> Variable:
    """Return max(0, x); the derivative is 1 for x ≥ 0, 0 itself included."""

    def pullback(adjoint: Array) -> tuple[Array]:
        # the kink itself passes the gradient on
        return (np.where(x.value >= 0.0, adjoint, 0.0),)

    return tape.record("relu", np.where(x.value > 0.0, x.value, 0.0), (x,), pullback)


def mean_over(tape: Tape, x: Variable, axis: int) -> Variable:
    """Return the sum along `axis` divided by its length; the axis disappears.

    Raises:
        AutogradError (reduction-axis-out-of-bounds): the axis is not there.
        AutogradError (empty-mean-axis): the axis has no elements.
    """
    if not 0 <= axis < len(x.shape):
        raise AutogradError("reduction-axis-out-of-bounds", axis=axis, rank=len(x.shape))
    length = x.shape[axis]
    if length == 0:
        raise AutogradError("empty-mean-axis", axis=axis)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.broadcast_to(np.expand_dims(adjoint / length, axis), x.shape),)

    return tape.record("mean", tape.arithmetic.sum(x.value, axis=axis) / length, (x,), pullback)


def channels(tape: Tape, x: Variable, start: int, stop: int) -> Variable:
    """Return the features start … stop − 1 of the last axis.

    Raises:
        AutogradError (index-out-of-bounds): a border lies beyond the axis.
    """
    length = x.shape[-1]
    for border in (start, stop):
        if not 0 <= border <= length:
            raise AutogradError("index-out-of-bounds", axis=len(x.shape) - 1, index=border, dimension=length)

    def pullback(adjoint: Array) -> tuple[Array]:
        # what was cut away has no influence
        gradient = np.zeros(x.shape)
        gradient[..., start:stop] = adjoint
        return (gradient,)

    return tape.record("channels", x.value[..., start:stop], (x,), pullback)


def concatenate(tape: Tape, parts: Sequence[Variable]) -> Variable:
    """Lay values side by side along the last axis, in order.

    Raises:
        AutogradError (data-length-mismatch): the other axes are not the same.
    """
    first = parts[0].shape
    for part in parts:
        if part.shape[:-1] != first[:-1]:
            raise AutogradError(
                "data-length-mismatch", expected=int(np.prod(first[:-1])), actual=int(np.prod(part.shape[:-1]))
            )
    borders = np.cumsum([0, *(part.shape[-1] for part in parts)]).tolist()

    def pullback(adjoint: Array) -> list[Array]:
        return [adjoint[..., start:stop] for start, stop in pairwise(borders)]

    return tape.record("concatenate", np.concatenate([part.value for part in parts], axis=-1), tuple(parts), pullback)


def permute_channels(tape: Tape, x: Variable, sources: Sequence[int]) -> Variable:
    """Reorder the last axis: feature i of the result is feature `sources[i]` of `x`. `sources` is a permutation."""
    places = np.asarray(sources, dtype=np.intp)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = np.empty(x.shape)
        # a permutation: every feature is written exactly once
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
        # the gradient goes one token back; the last token sends none
        return (shifted(adjoint, -1),)

    return tape.record("previous", shifted(x.value, 1), (x,), pullback)


def softmax(tape: Tape, logits: Variable, axis: int) -> Variable:
    """Return probabilities along `axis`; backward p · (g − Σ g·p), the sum ascending.

    Raises:
        AutogradError (axis-out-of-bounds, empty-normalization-axis): the axis is not there, or has no classes.
    """
    check_classes(logits.shape, axis)
    arithmetic = tape.arithmetic
    rows = normalize_rows(arithmetic, np.moveaxis(logits.value, axis, -1)).probabilities()

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.moveaxis(softmax_pullback(arithmetic, rows, np.moveaxis(adjoint, axis, -1)), -1, axis),)

    return tape.record("softmax", np.moveaxis(rows, -1, axis), (logits,), pullback)


def from_flat(values: Sequence[float], shape: Shape) -> Array:
    """Lay a flat sequence out row-major.

    Raises:
        AutogradError (data-length-mismatch): the shape holds another number of elements.
    """
    expected = int(np.prod(shape, dtype=np.int64))
    if expected != len(values):
        raise AutogradError("data-length-mismatch", expected=expected, actual=len(values))
    return np.array(values, dtype=np.float64).reshape(shape)
