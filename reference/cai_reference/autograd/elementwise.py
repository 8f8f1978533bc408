"""Operations on one element at a time (add, multiply, scale, tanh, σ, SiLU, ReLU), and broadcasting.

Shapes are aligned from the right; a length of 1 repeats. The gradient of what was repeated is the ascending sum over
the repetitions (course, chapters 10, 14 and 20).
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.errors import BroadcastTargetMismatch, IncompatibleBroadcast, Shape
from cai_reference.autograd.graph import Tape, Variable


def add(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left + right.

    Raises:
        IncompatibleBroadcast: the shapes cannot be aligned.
    """
    broadcast_shape(left.shape, right.shape)
    value = _quietly(np.add, left.value, right.value)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        return (
            unbroadcast(tape.arithmetic, adjoint, left.shape),
            unbroadcast(tape.arithmetic, adjoint, right.shape),
        )

    return tape.record("add", value, (left, right), pullback)


def multiply(tape: Tape, left: Variable, right: Variable) -> Variable:
    """Return left · right, elementwise.

    Raises:
        IncompatibleBroadcast: the shapes cannot be aligned.
    """
    broadcast_shape(left.shape, right.shape)
    value = _quietly(np.multiply, left.value, right.value)

    def pullback(adjoint: Array) -> tuple[Array, Array]:
        return (
            unbroadcast(tape.arithmetic, _quietly(np.multiply, adjoint, right.value), left.shape),
            unbroadcast(tape.arithmetic, _quietly(np.multiply, adjoint, left.value), right.shape),
        )

    return tape.record("multiply", value, (left, right), pullback)


def sigmoid(arithmetic: Arithmetic, x: Array) -> Array:
    """Return 1 / (1 + exp(−x)), through exp of a number that is never positive.

    For x ≥ 0 (−0.0 included) this is 1 / (1 + exp(−x)), below it is e / (1 + e) with e = exp(x).
    """
    small = arithmetic.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def silu(tape: Tape, x: Variable) -> Variable:
    """Return x · σ(x), whose derivative is σ(x) · (1 + x · (1 − σ(x)))."""
    gate = sigmoid(tape.arithmetic, x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (_quietly(np.multiply, adjoint, gate * (1.0 + x.value * (1.0 - gate))),)

    return tape.record("silu", x.value * gate, (x,), pullback)


def scale(tape: Tape, x: Variable, factor: float) -> Variable:
    """Return x · factor."""

    def pullback(adjoint: Array) -> tuple[Array]:
        return (_quietly(np.multiply, adjoint, np.asarray(factor)),)

    return tape.record("scale", _quietly(np.multiply, x.value, np.asarray(factor)), (x,), pullback)


def tanh(tape: Tape, x: Variable) -> Variable:
    """Return tanh x, whose derivative is 1 − tanh² x."""
    value = tape.arithmetic.tanh(x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (_quietly(np.multiply, adjoint, 1.0 - value * value),)

    return tape.record("tanh", value, (x,), pullback)


def logistic(tape: Tape, x: Variable) -> Variable:
    """Return σ(x), whose derivative is σ(x) · (1 − σ(x))."""
    value = sigmoid(tape.arithmetic, x.value)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (_quietly(np.multiply, adjoint, value * (1.0 - value)),)

    return tape.record("logistic", value, (x,), pullback)


def relu(tape: Tape, x: Variable) -> Variable:
    """Return max(0, x); the derivative is 1 for x ≥ 0, 0 itself included."""

    def pullback(adjoint: Array) -> tuple[Array]:
        return (np.where(x.value >= 0.0, adjoint, 0.0),)

    return tape.record("relu", np.where(x.value > 0.0, x.value, 0.0), (x,), pullback)


def broadcast_to(tape: Tape, x: Variable, shape: Shape) -> Variable:
    """Repeat `x` until it has `shape`.

    Raises:
        IncompatibleBroadcast: the shapes cannot be aligned.
        BroadcastTargetMismatch: aligning them gives a larger shape than asked for.
    """
    inferred = broadcast_shape(x.shape, shape)
    if inferred != shape:
        raise BroadcastTargetMismatch(x.shape, shape, inferred)

    def pullback(adjoint: Array) -> tuple[Array]:
        return (unbroadcast(tape.arithmetic, adjoint, x.shape),)

    return tape.record("broadcast", np.broadcast_to(x.value, shape), (x,), pullback)


def broadcast_shape(left: Shape, right: Shape) -> Shape:
    """Return the shape to which two shapes align, from the right.

    Raises:
        IncompatibleBroadcast: two lengths differ and neither is 1.
    """
    rank = max(len(left), len(right))
    aligned_left = (1,) * (rank - len(left)) + left
    aligned_right = (1,) * (rank - len(right)) + right
    shape: list[int] = []
    for axis, (one, other) in enumerate(zip(aligned_left, aligned_right, strict=True)):
        if one != other and 1 not in (one, other):
            raise IncompatibleBroadcast(axis, one, other)
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
    return arithmetic.sum(adjoint, axis=repeated, keepdims=True).reshape(shape)


def _quietly(operation: np.ufunc, left: Array, right: Array) -> Array:
    # Overflow is reported by the tape as an error with a place, not as a warning without one.
    with np.errstate(over="ignore", under="ignore"):
        result: Array = operation(left, right)
    return result
