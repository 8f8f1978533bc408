"""One call for every error of the autograd and layer rooms, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape, Variable, probability
from cai_reference.autograd import operations as ops
from cai_reference.autograd.backward import SweepError, backward
from cai_reference.autograd.features import from_flat, mean_over, softmax
from cai_reference.errors import AutogradError, CaiReferenceError, LayerError
from cai_reference.layers.matrices import check_name, check_unique_names, embedding, xavier_uniform
from cai_reference.layers.projection import LinearError, linear
from cai_reference.layers.swiglu import SwiGluError, swiglu
from cai_reference.splitmix import SplitMix64

Case = tuple[CaiReferenceError, Callable[[], object]]

TAPE = Tape(STRICT)
LARGE = 1.7e308


def zeros(*shape: int) -> Variable:
    """Return a constant of zeros."""
    return TAPE.constant(np.zeros(shape))


def filled(value: float, *shape: int) -> Variable:
    """Return a constant of one value."""
    return TAPE.constant(np.full(shape, value))


def weight(value: float = 1.0) -> Parameter:
    """Return a parameter `p` of one element."""
    return Parameter("p", np.array([value]))


def released() -> Variable:
    """Return a value whose graph has been swept."""
    value = ops.multiply(TAPE, weight(), weight())
    backward(value)
    return value


def stale() -> Variable:
    """Return a value whose right operand has changed twice since."""
    parameter = weight()
    value = ops.multiply(TAPE, weight(), parameter)
    parameter.assign(np.array([2.0]))
    parameter.assign(np.array([3.0]))
    return value


def sweep_with_large_stored_gradient() -> None:
    """Sweep twice with a seed of which two are too large."""
    parameter = weight()
    for _ in range(2):
        backward(parameter, np.array([LARGE]))


SHAPES: list[Case] = [
    (AutogradError("data-length-mismatch", expected=3, actual=2), lambda: from_flat([1.0, 2.0], (3,))),
    (
        AutogradError("index-out-of-bounds", axis=1, index=5, dimension=2),
        lambda: ops.swap_axes(TAPE, zeros(2, 2), 0, 5),
    ),
    (AutogradError("incompatible-broadcast", axis=1, left=3, right=4), lambda: ops.add(TAPE, zeros(2, 3), zeros(4))),
    (AutogradError("reduction-axis-out-of-bounds", axis=2, rank=1), lambda: mean_over(TAPE, zeros(3), 2)),
    (AutogradError("empty-mean-axis", axis=1), lambda: mean_over(TAPE, zeros(2, 0), 1)),
    (AutogradError("left-rank-too-small", rank=1), lambda: ops.matmul(TAPE, zeros(3), zeros(3, 3))),
    (AutogradError("right-rank-too-small", rank=0), lambda: ops.matmul(TAPE, zeros(3, 3), zeros())),
    (AutogradError("inner-dimension-mismatch", left=3, right=4), lambda: ops.matmul(TAPE, zeros(2, 3), zeros(4, 2))),
    (
        AutogradError("incompatible-batch", axis=0, left=2, right=3),
        lambda: ops.matmul(TAPE, zeros(2, 1, 1), zeros(3, 1, 1)),
    ),
    (AutogradError("gather-table-rank", rank=1), lambda: ops.gather(TAPE, zeros(3), [0], (1,))),
    (
        AutogradError("gather-index-count-mismatch", expected=2, actual=1),
        lambda: ops.gather(TAPE, zeros(3, 1), [0], (2,)),
    ),
    (
        AutogradError("gather-index-out-of-bounds", position=1, index=3, rows=2),
        lambda: ops.gather(TAPE, zeros(2, 1), [0, 3], (2,)),
    ),
    (AutogradError("causal-softmax-rank", rank=1), lambda: probability.causal_softmax(TAPE, zeros(3))),
    (
        AutogradError("causal-softmax-non-square", queries=2, keys=3),
        lambda: probability.causal_softmax(TAPE, zeros(2, 3)),
    ),
    (AutogradError("causal-softmax-empty-tokens"), lambda: probability.causal_softmax(TAPE, zeros(0, 0))),
]

PROBABILITIES: list[Case] = [
    (AutogradError("axis-out-of-bounds", axis=3, rank=2), lambda: softmax(TAPE, zeros(2, 2), 3)),
    (AutogradError("empty-normalization-axis", axis=1), lambda: softmax(TAPE, zeros(2, 0), 1)),
    (
        AutogradError("nan-logit", group=0, class_index=1),
        lambda: probability.mean_nll_of(STRICT, np.array([[0.0, math.nan]]), [0]),
    ),
    (
        AutogradError("positive-infinity-logit", group=0, class_index=1),
        lambda: probability.mean_nll_of(STRICT, np.array([[0.0, math.inf]]), [0]),
    ),
    (
        AutogradError("negative-infinity-logit", group=1, class_index=0),
        lambda: probability.mean_nll_of(STRICT, np.array([[0.0], [-math.inf]]), [0, 0]),
    ),
    (
        AutogradError("target-count-mismatch", expected=2, actual=1),
        lambda: probability.mean_nll(TAPE, zeros(2, 3), [0]),
    ),
    (AutogradError("empty-targets"), lambda: probability.mean_nll(TAPE, zeros(0, 3), [])),
    (
        AutogradError("target-out-of-bounds", group=1, target=5, classes=3),
        lambda: probability.mean_nll(TAPE, zeros(2, 3), [0, 5]),
    ),
]

GRAPHS: list[Case] = [
    (AutogradError("non-finite-leaf", operation="p", index=0, value=math.inf), lambda: weight(math.inf)),
    (
        AutogradError("non-finite-forward", operation="multiply", index=0, value=math.inf),
        lambda: ops.multiply(TAPE, filled(LARGE), filled(LARGE)),
    ),
    (SweepError("untracked-output", operation="constant"), lambda: backward(zeros(1))),
    (SweepError("graph-released", operation="multiply"), lambda: backward(released())),
    (AutogradError("released-operand", operation="add", operand=1), lambda: ops.add(TAPE, zeros(1), released())),
    (SweepError("seed-shape-mismatch", expected=(1,), actual=(2, 1)), lambda: backward(weight(), np.ones((2, 1)))),
    (SweepError("non-finite-seed", index=0, value=math.nan), lambda: backward(weight(), np.array([math.nan]))),
    (
        SweepError(
            "stale-operand-value", child="multiply", parent="p", operand=1, recorded_revision=0, current_revision=2
        ),
        lambda: backward(stale()),
    ),
    (
        SweepError("non-finite-vjp", child="multiply", parent="p", operand=0, index=0, value=math.inf),
        lambda: backward(ops.multiply(TAPE, weight(), filled(2.0, 1)), np.array([LARGE])),
    ),
    (
        SweepError("non-finite-pass-adjoint", node="p", index=0, previous=LARGE, contribution=LARGE),
        lambda: backward(ops.add(TAPE, *[weight()] * 2), np.array([LARGE])),
    ),
    (
        SweepError("non-finite-accumulated-gradient", node="p", index=0, stored=LARGE, pass_adjoint=LARGE),
        sweep_with_large_stored_gradient,
    ),
    (
        AutogradError("assigned-shape-mismatch", name="p", expected=(1,), actual=(1, 1)),
        lambda: weight().assign(np.zeros((1, 1))),
    ),
    (AutogradError("not-a-parameter", operation="constant"), lambda: zeros(1).gradient),
]

LAYERS: list[Case] = [
    (LayerError("empty-name"), lambda: check_name("")),
    (LayerError("empty-name-segment", index=2), lambda: check_name("a.")),
    (LayerError("invalid-name-character", index=1, byte=0x2D), lambda: check_name("a-b")),
    (LayerError("zero-fan-in"), lambda: xavier_uniform("w", 0, 1, SplitMix64(0))),
    (LayerError("zero-fan-out"), lambda: xavier_uniform("w", 1, 0, SplitMix64(0))),
    (LayerError("duplicate-name", name="a", first=0, repeated=2), lambda: check_unique_names(["a", "b", "a"])),
    (LayerError("table-rank", rank=3), lambda: embedding(TAPE, zeros(1, 1, 1), [], ())),
    (LayerError("empty-embedding-vocabulary"), lambda: embedding(TAPE, zeros(0, 1), [], (0,))),
    (LayerError("zero-table-width"), lambda: embedding(TAPE, zeros(1, 0), [], (0,))),
    (LayerError("token-shape", shape=(-1, 2)), lambda: embedding(TAPE, zeros(1, 1), [], (-1, 2))),
    (LayerError("token-count-mismatch", expected=2, actual=1), lambda: embedding(TAPE, zeros(1, 1), [0], (2,))),
    (
        LayerError("token-id-out-of-bounds", position=0, token_id=7, vocabulary_size=3),
        lambda: embedding(TAPE, zeros(3, 1), [7], (1,)),
    ),
    (LinearError("weight-rank", rank=1), lambda: linear(TAPE, zeros(1, 1), zeros(1))),
    (LinearError("zero-input-width"), lambda: linear(TAPE, zeros(1, 0), zeros(0, 1))),
    (LinearError("zero-output-width"), lambda: linear(TAPE, zeros(1, 1), zeros(1, 0))),
    (LinearError("bias-rank", rank=2), lambda: linear(TAPE, zeros(1, 1), zeros(1, 1), zeros(1, 1))),
    (
        LinearError("bias-width-mismatch", expected=1, actual=2),
        lambda: linear(TAPE, zeros(1, 1), zeros(1, 1), zeros(2)),
    ),
    (LinearError("input-rank", rank=1), lambda: linear(TAPE, zeros(1), zeros(1, 1))),
    (LinearError("input-width-mismatch", expected=2, actual=3), lambda: linear(TAPE, zeros(1, 3), zeros(2, 1))),
    (
        SwiGluError("projection-failed", projection="down", inner=str(LinearError("zero-output-width"))),
        lambda: swiglu(TAPE, zeros(1, 1), zeros(1, 1), zeros(1, 1), zeros(1, 0)),
    ),
    (
        SwiGluError(
            "gate-failed",
            operation="elementwise gate",
            inner=str(AutogradError("non-finite-forward", operation="multiply", index=0, value=math.inf)),
        ),
        lambda: swiglu(TAPE, filled(1e200, 1, 1), filled(1.0, 1, 1), filled(1.0, 1, 1), filled(1.0, 1, 1)),
    ),
    (
        SwiGluError("branch-input-width-mismatch", gate=2, up=3),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(3, 1), zeros(1, 1)),
    ),
    (
        SwiGluError("branch-hidden-width-mismatch", gate=1, up=4),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(2, 4), zeros(1, 1)),
    ),
    (
        SwiGluError("down-input-width-mismatch", hidden=1, down=5),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(2, 1), zeros(5, 1)),
    ),
]

CASES: list[Case] = [*SHAPES, *PROBABILITIES, *GRAPHS, *LAYERS]
