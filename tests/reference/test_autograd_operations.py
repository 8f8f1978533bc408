"""Values of the operations by hand, and which shapes they refuse, in which order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic import LIBM, STRICT
from cai_reference.autograd import (
    Tape,
    Variable,
    add,
    broadcast_to,
    causal_softmax,
    from_flat,
    gather,
    log_softmax,
    matmul,
    maximum_over,
    mean_over,
    multiply,
    reshape,
    sigmoid,
    silu,
    softmax,
    sum_over,
    swap_axes,
)
from cai_reference.autograd.elementwise import broadcast_shape
from cai_reference.autograd.errors import (
    AxisOutOfBounds,
    BroadcastTargetMismatch,
    CausalSoftmaxEmptyTokens,
    CausalSoftmaxNonSquare,
    CausalSoftmaxRank,
    DataLengthMismatch,
    EmptyMaxAxis,
    EmptyMeanAxis,
    EmptyNormalizationAxis,
    GatherIndexCountMismatch,
    GatherIndexOutOfBounds,
    GatherTableRank,
    IncompatibleBatch,
    IncompatibleBroadcast,
    IndexOutOfBounds,
    InnerDimensionMismatch,
    LeftRankTooSmall,
    ReductionAxisOutOfBounds,
    RightRankTooSmall,
)
from cai_reference.errors import CaiReferenceError
from support_raising import raises

TAPE = Tape(STRICT)


def counted(*shape: int) -> Variable:
    """Return the constant 0, 1, 2, … of a shape."""
    return TAPE.constant(np.arange(float(np.prod(shape, dtype=int))).reshape(shape))


VALUES: dict[str, tuple[Callable[[], Variable], object]] = {
    "add": (lambda: add(TAPE, counted(2, 2), counted(2)), [[0.0, 2.0], [2.0, 4.0]]),
    "multiply": (lambda: multiply(TAPE, counted(2, 1), counted(1, 3)), [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]),
    "broadcast": (lambda: broadcast_to(TAPE, counted(2, 1), (2, 2)), [[0.0, 0.0], [1.0, 1.0]]),
    "matmul": (lambda: matmul(TAPE, counted(2, 2), counted(2, 2)), [[2.0, 3.0], [6.0, 11.0]]),
    "matmul over nothing": (lambda: matmul(TAPE, counted(1, 0), counted(0, 2)), [[0.0, 0.0]]),
    "sum": (lambda: sum_over(TAPE, counted(2, 3), 0), [3.0, 5.0, 7.0]),
    "sum over nothing": (lambda: sum_over(TAPE, counted(2, 0), 1), [0.0, 0.0]),
    "mean": (lambda: mean_over(TAPE, counted(2, 3), 1), [1.0, 4.0]),
    "maximum": (lambda: maximum_over(TAPE, counted(2, 3), 0), [3.0, 4.0, 5.0]),
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
    "add": (lambda: add(TAPE, counted(2, 3), counted(2)), IncompatibleBroadcast(1, 3, 2)),
    "multiply": (lambda: multiply(TAPE, counted(4, 2, 3), counted(5, 2, 1)), IncompatibleBroadcast(0, 4, 5)),
    "the first axis that differs": (lambda: add(TAPE, counted(2, 2), counted(3, 3)), IncompatibleBroadcast(0, 2, 3)),
    "the axis counts in the result": (lambda: add(TAPE, counted(2), counted(7, 3)), IncompatibleBroadcast(1, 2, 3)),
    "no axis of length 0 repeats": (lambda: add(TAPE, counted(0), counted(2)), IncompatibleBroadcast(0, 0, 2)),
    "broadcast": (lambda: broadcast_to(TAPE, counted(2), (3,)), IncompatibleBroadcast(0, 2, 3)),
    "broadcast to less": (lambda: broadcast_to(TAPE, counted(3), (1,)), BroadcastTargetMismatch((3,), (1,), (3,))),
    "broadcast to fewer axes": (
        lambda: broadcast_to(TAPE, counted(1, 3), (3,)),
        BroadcastTargetMismatch((1, 3), (3,), (1, 3)),
    ),
    "matmul: left before right": (lambda: matmul(TAPE, counted(2), counted(2)), LeftRankTooSmall(1)),
    "matmul: right": (lambda: matmul(TAPE, counted(2, 2), counted(2)), RightRankTooSmall(1)),
    "matmul: inner before batch": (
        lambda: matmul(TAPE, counted(2, 1, 3), counted(3, 2, 1)),
        InnerDimensionMismatch(3, 2),
    ),
    "matmul: batch": (lambda: matmul(TAPE, counted(2, 1, 3), counted(3, 3, 1)), IncompatibleBatch(0, 2, 3)),
    "sum": (lambda: sum_over(TAPE, counted(2), 1), ReductionAxisOutOfBounds(1, 1)),
    "sum from behind": (lambda: sum_over(TAPE, counted(2), -1), ReductionAxisOutOfBounds(-1, 1)),
    "mean": (lambda: mean_over(TAPE, counted(2, 2), 2), ReductionAxisOutOfBounds(2, 2)),
    "mean of nothing": (lambda: mean_over(TAPE, counted(2, 0), 1), EmptyMeanAxis(1)),
    "maximum": (lambda: maximum_over(TAPE, counted(), 0), ReductionAxisOutOfBounds(0, 0)),
    "maximum of nothing": (lambda: maximum_over(TAPE, counted(0, 2), 0), EmptyMaxAxis(0)),
    "reshape": (lambda: reshape(TAPE, counted(2, 3), (2, 2)), DataLengthMismatch(4, 6)),
    "from flat": (lambda: from_flat([1.0, 2.0], (3,)), DataLengthMismatch(3, 2)),
    "swap: first": (lambda: swap_axes(TAPE, counted(2, 3), 2, 5), IndexOutOfBounds(0, 2, 2)),
    "swap: second": (lambda: swap_axes(TAPE, counted(2, 3), 1, -1), IndexOutOfBounds(1, -1, 2)),
    "gather: rank": (lambda: gather(TAPE, counted(2, 2, 2), [9], (2,)), GatherTableRank(3)),
    "gather: count": (lambda: gather(TAPE, counted(2, 2), [9], (2,)), GatherIndexCountMismatch(2, 1)),
    "gather: index": (lambda: gather(TAPE, counted(2, 2), [1, 2], (2,)), GatherIndexOutOfBounds(1, 2, 2)),
    "gather from behind": (lambda: gather(TAPE, counted(2, 2), [-1], (1,)), GatherIndexOutOfBounds(0, -1, 2)),
    "softmax: axis": (lambda: softmax(TAPE, counted(2), 1), AxisOutOfBounds(1, 1)),
    "softmax: no classes": (lambda: softmax(TAPE, counted(2, 0), 1), EmptyNormalizationAxis(1)),
    "log-softmax: axis": (lambda: log_softmax(TAPE, counted(2), -1), AxisOutOfBounds(-1, 1)),
    "log-softmax: no classes": (lambda: log_softmax(TAPE, counted(0, 2), 0), EmptyNormalizationAxis(0)),
    "causal: rank": (lambda: causal_softmax(TAPE, counted(4)), CausalSoftmaxRank(1)),
    "causal: square before empty": (lambda: causal_softmax(TAPE, counted(0, 2)), CausalSoftmaxNonSquare(0, 2)),
    "causal: empty": (lambda: causal_softmax(TAPE, counted(3, 0, 0)), CausalSoftmaxEmptyTokens()),
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
