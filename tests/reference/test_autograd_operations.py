"""Values of the operations by hand, and which shapes they refuse, in which order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.features import from_flat, mean_over, softmax
from cai_reference.autograd.operations import (
    add,
    broadcast_shape,
    gather,
    matmul,
    multiply,
    reshape,
    sigmoid,
    silu,
    swap_axes,
)
from cai_reference.autograd.probability import causal_softmax
from cai_reference.errors import AutogradError, CaiReferenceError
from support_refusals import raises

TAPE = Tape(STRICT)


def counted(*shape: int) -> Variable:
    """Return the constant 0, 1, 2, … of a shape."""
    return TAPE.constant(np.arange(float(np.prod(shape, dtype=int))).reshape(shape))


VALUES: dict[str, tuple[Callable[[], Variable], object]] = {
    "add": (lambda: add(TAPE, counted(2, 2), counted(2)), [[0.0, 2.0], [2.0, 4.0]]),
    "multiply": (lambda: multiply(TAPE, counted(2, 1), counted(1, 3)), [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]),
    "matmul": (lambda: matmul(TAPE, counted(2, 2), counted(2, 2)), [[2.0, 3.0], [6.0, 11.0]]),
    "matmul over nothing": (lambda: matmul(TAPE, counted(1, 0), counted(0, 2)), [[0.0, 0.0]]),
    "mean": (lambda: mean_over(TAPE, counted(2, 3), 1), [1.0, 4.0]),
    "reshape": (lambda: reshape(TAPE, counted(2, 3), (3, 2)), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    "swap axes": (lambda: swap_axes(TAPE, counted(2, 3), 0, 1), [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]),
    "gather": (lambda: gather(TAPE, counted(3, 2), [2, 0], (1, 2)), [[[4.0, 5.0], [0.0, 1.0]]]),
    "softmax": (lambda: softmax(TAPE, TAPE.constant(np.full((1, 4), 3.0)), 1), [[0.25, 0.25, 0.25, 0.25]]),
    "causal softmax": (lambda: causal_softmax(TAPE, TAPE.constant(np.ones((2, 2)))), [[1.0, 0.0], [0.5, 0.5]]),
}


@pytest.mark.parametrize(("operation", "expected"), VALUES.values(), ids=VALUES)
def test_values_by_hand(operation: Callable[[], Variable], expected: object) -> None:
    """Small whole numbers."""
    assert expected == operation().value.tolist()


REFUSED: dict[str, tuple[Callable[[], object], CaiReferenceError]] = {
    "add": (
        lambda: add(TAPE, counted(2, 3), counted(2)),
        AutogradError("incompatible-broadcast", axis=1, left=3, right=2),
    ),
    "multiply": (
        lambda: multiply(TAPE, counted(4, 2, 3), counted(5, 2, 1)),
        AutogradError("incompatible-broadcast", axis=0, left=4, right=5),
    ),
    "the first axis that differs": (
        lambda: add(TAPE, counted(2, 2), counted(3, 3)),
        AutogradError("incompatible-broadcast", axis=0, left=2, right=3),
    ),
    "the axis counts in the result": (
        lambda: add(TAPE, counted(2), counted(7, 3)),
        AutogradError("incompatible-broadcast", axis=1, left=2, right=3),
    ),
    "no axis of length 0 repeats": (
        lambda: add(TAPE, counted(0), counted(2)),
        AutogradError("incompatible-broadcast", axis=0, left=0, right=2),
    ),
    "matmul: left before right": (
        lambda: matmul(TAPE, counted(2), counted(2)),
        AutogradError("left-rank-too-small", rank=1),
    ),
    "matmul: right": (lambda: matmul(TAPE, counted(2, 2), counted(2)), AutogradError("right-rank-too-small", rank=1)),
    "matmul: inner before batch": (
        lambda: matmul(TAPE, counted(2, 1, 3), counted(3, 2, 1)),
        AutogradError("inner-dimension-mismatch", left=3, right=2),
    ),
    "matmul: batch": (
        lambda: matmul(TAPE, counted(2, 1, 3), counted(3, 3, 1)),
        AutogradError("incompatible-batch", axis=0, left=2, right=3),
    ),
    "mean": (lambda: mean_over(TAPE, counted(2, 2), 2), AutogradError("reduction-axis-out-of-bounds", axis=2, rank=2)),
    "mean of nothing": (lambda: mean_over(TAPE, counted(2, 0), 1), AutogradError("empty-mean-axis", axis=1)),
    "reshape": (
        lambda: reshape(TAPE, counted(2, 3), (2, 2)),
        AutogradError("data-length-mismatch", expected=4, actual=6),
    ),
    "from flat": (lambda: from_flat([1.0, 2.0], (3,)), AutogradError("data-length-mismatch", expected=3, actual=2)),
    "swap: first": (
        lambda: swap_axes(TAPE, counted(2, 3), 2, 5),
        AutogradError("index-out-of-bounds", axis=0, index=2, dimension=2),
    ),
    "swap: second": (
        lambda: swap_axes(TAPE, counted(2, 3), 1, -1),
        AutogradError("index-out-of-bounds", axis=1, index=-1, dimension=2),
    ),
    "gather: rank": (lambda: gather(TAPE, counted(2, 2, 2), [9], (2,)), AutogradError("gather-table-rank", rank=3)),
    "gather: count": (
        lambda: gather(TAPE, counted(2, 2), [9], (2,)),
        AutogradError("gather-index-count-mismatch", expected=2, actual=1),
    ),
    "gather: index": (
        lambda: gather(TAPE, counted(2, 2), [1, 2], (2,)),
        AutogradError("gather-index-out-of-bounds", position=1, index=2, rows=2),
    ),
    "gather from behind": (
        lambda: gather(TAPE, counted(2, 2), [-1], (1,)),
        AutogradError("gather-index-out-of-bounds", position=0, index=-1, rows=2),
    ),
    "softmax: axis": (lambda: softmax(TAPE, counted(2), 1), AutogradError("axis-out-of-bounds", axis=1, rank=1)),
    "softmax: no classes": (lambda: softmax(TAPE, counted(2, 0), 1), AutogradError("empty-normalization-axis", axis=1)),
    "causal: rank": (lambda: causal_softmax(TAPE, counted(4)), AutogradError("causal-softmax-rank", rank=1)),
    "causal: square before empty": (
        lambda: causal_softmax(TAPE, counted(0, 2)),
        AutogradError("causal-softmax-non-square", queries=0, keys=2),
    ),
    "causal: empty": (lambda: causal_softmax(TAPE, counted(3, 0, 0)), AutogradError("causal-softmax-empty-tokens")),
}


@pytest.mark.parametrize(("operation", "expected"), REFUSED.values(), ids=REFUSED)
def test_refused_shapes(operation: Callable[[], object], expected: CaiReferenceError) -> None:
    """The first check that fails is reported, with lengths and axes."""
    with raises(expected):
        operation()


@pytest.mark.parametrize(
    ("left", "right"), [((), ()), ((2, 3), (3,)), ((1,), (0,)), ((5, 1, 4), (3, 1)), ((1, 1), (2, 2)), ((2, 0), (1, 1))]
)
def test_shapes_align_as_in_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """In both directions."""
    assert np.broadcast_shapes(left, right) == broadcast_shape(left, right) == broadcast_shape(right, left)


def test_the_sigmoid_never_takes_exp_of_a_positive_number() -> None:
    """It saturates without overflow, is exactly a half at both zeros, and keeps what is small on the left."""
    values = sigmoid(LIBM, np.array([0.0, -0.0, 800.0, -800.0, -700.0]))
    assert [0.5, 0.5, 1.0, 0.0] == values[:4].tolist()
    assert 0.0 < values[4] < 1e-300


def test_silu_is_x_times_sigmoid() -> None:
    """Rounded once, after the sigmoid."""
    x = np.linspace(-4.0, 4.0, 9)
    assert (x * sigmoid(STRICT, x)).tolist() == silu(TAPE, TAPE.constant(x)).value.tolist()
