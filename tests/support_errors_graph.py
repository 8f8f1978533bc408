"""One call for every error of the autograd and layer rooms, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cai_reference import autograd as ag
from cai_reference.arithmetic import STRICT
from cai_reference.autograd import Parameter, Tape, Variable, backward
from cai_reference.autograd import errors as graph
from cai_reference.errors import CaiReferenceError
from cai_reference.layers import embedding, linear, swiglu, xavier_uniform
from cai_reference.layers import errors as layer
from cai_reference.layers.initialization import check_name, check_unique_names
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
    value = ag.multiply(TAPE, weight(), weight())
    backward(value)
    return value


def stale() -> Variable:
    """Return a value whose right operand has changed twice since."""
    parameter = weight()
    value = ag.multiply(TAPE, weight(), parameter)
    parameter.assign(np.array([2.0]))
    parameter.assign(np.array([3.0]))
    return value


def sweep_with_large_stored_gradient() -> None:
    """Sweep twice with a seed of which two are too large."""
    parameter = weight()
    for _ in range(2):
        backward(parameter, np.array([LARGE]))


SHAPES: list[Case] = [
    (graph.DataLengthMismatch(3, 2), lambda: ag.from_flat([1.0, 2.0], (3,))),
    (graph.IndexOutOfBounds(1, 5, 2), lambda: ag.swap_axes(TAPE, zeros(2, 2), 0, 5)),
    (graph.IncompatibleBroadcast(1, 3, 4), lambda: ag.add(TAPE, zeros(2, 3), zeros(4))),
    (graph.ReductionAxisOutOfBounds(2, 1), lambda: ag.sum_over(TAPE, zeros(3), 2)),
    (graph.EmptyMeanAxis(1), lambda: ag.mean_over(TAPE, zeros(2, 0), 1)),
    (graph.EmptyMaxAxis(0), lambda: ag.maximum_over(TAPE, zeros(0), 0)),
    (graph.LeftRankTooSmall(1), lambda: ag.matmul(TAPE, zeros(3), zeros(3, 3))),
    (graph.RightRankTooSmall(0), lambda: ag.matmul(TAPE, zeros(3, 3), zeros())),
    (graph.InnerDimensionMismatch(3, 4), lambda: ag.matmul(TAPE, zeros(2, 3), zeros(4, 2))),
    (graph.IncompatibleBatch(0, 2, 3), lambda: ag.matmul(TAPE, zeros(2, 1, 1), zeros(3, 1, 1))),
    (graph.GatherTableRank(1), lambda: ag.gather(TAPE, zeros(3), [0], (1,))),
    (graph.GatherIndexCountMismatch(2, 1), lambda: ag.gather(TAPE, zeros(3, 1), [0], (2,))),
    (graph.GatherIndexOutOfBounds(1, 3, 2), lambda: ag.gather(TAPE, zeros(2, 1), [0, 3], (2,))),
    (graph.CausalSoftmaxRank(1), lambda: ag.causal_softmax(TAPE, zeros(3))),
    (graph.CausalSoftmaxNonSquare(2, 3), lambda: ag.causal_softmax(TAPE, zeros(2, 3))),
    (graph.CausalSoftmaxEmptyTokens(), lambda: ag.causal_softmax(TAPE, zeros(0, 0))),
]

PROBABILITIES: list[Case] = [
    (graph.AxisOutOfBounds(3, 2), lambda: ag.softmax(TAPE, zeros(2, 2), 3)),
    (graph.EmptyNormalizationAxis(1), lambda: ag.log_softmax(TAPE, zeros(2, 0), 1)),
    (graph.NaNLogit(0, 1), lambda: ag.mean_nll_of(STRICT, np.array([[0.0, math.nan]]), [0])),
    (graph.PositiveInfinityLogit(0, 1), lambda: ag.mean_nll_of(STRICT, np.array([[0.0, math.inf]]), [0])),
    (graph.NegativeInfinityLogit(1, 0), lambda: ag.mean_nll_of(STRICT, np.array([[0.0], [-math.inf]]), [0, 0])),
    (graph.TargetCountMismatch(2, 1), lambda: ag.mean_nll(TAPE, zeros(2, 3), [0])),
    (graph.EmptyTargets(), lambda: ag.mean_nll(TAPE, zeros(0, 3), [])),
    (graph.TargetOutOfBounds(1, 5, 3), lambda: ag.mean_nll(TAPE, zeros(2, 3), [0, 5])),
]

GRAPHS: list[Case] = [
    (graph.NonFiniteLeaf("p", 0, math.inf), lambda: weight(math.inf)),
    (graph.NonFiniteForward("multiply", 0, math.inf), lambda: ag.multiply(TAPE, filled(LARGE), filled(LARGE))),
    (graph.UntrackedOutput("constant"), lambda: backward(zeros(1))),
    (graph.GraphReleased("multiply"), lambda: backward(released())),
    (graph.ReleasedOperand("add", 1), lambda: ag.add(TAPE, zeros(1), released())),
    (graph.SeedShapeMismatch((1,), (2, 1)), lambda: backward(weight(), np.ones((2, 1)))),
    (graph.NonFiniteSeed(0, math.nan), lambda: backward(weight(), np.array([math.nan]))),
    (graph.StaleOperandValue("multiply", "p", 1, 0, 2), lambda: backward(stale())),
    (
        graph.NonFiniteVjp("multiply", "p", 0, 0, math.inf),
        lambda: backward(ag.multiply(TAPE, weight(), filled(2.0, 1)), np.array([LARGE])),
    ),
    (
        graph.NonFinitePassAdjoint("p", 0, LARGE, LARGE),
        lambda: backward(ag.add(TAPE, *[weight()] * 2), np.array([LARGE])),
    ),
    (graph.NonFiniteAccumulatedGradient("p", 0, LARGE, LARGE), sweep_with_large_stored_gradient),
    (graph.AssignedShapeMismatch("p", (1,), (1, 1)), lambda: weight().assign(np.zeros((1, 1)))),
    (graph.NotAParameter("constant"), lambda: zeros(1).gradient),
    (graph.BroadcastTargetMismatch((3,), (1,), (3,)), lambda: ag.broadcast_to(TAPE, zeros(3), (1,))),
]

LAYERS: list[Case] = [
    (layer.EmptyName(), lambda: check_name("")),
    (layer.EmptyNameSegment(2), lambda: check_name("a.")),
    (layer.InvalidNameCharacter(1, 0x2D), lambda: check_name("a-b")),
    (layer.ZeroFanIn(), lambda: xavier_uniform("w", 0, 1, SplitMix64(0))),
    (layer.ZeroFanOut(), lambda: xavier_uniform("w", 1, 0, SplitMix64(0))),
    (layer.DuplicateName("a", 0, 2), lambda: check_unique_names(["a", "b", "a"])),
    (layer.TableRank(3), lambda: embedding(TAPE, zeros(1, 1, 1), [], ())),
    (layer.EmptyEmbeddingVocabulary(), lambda: embedding(TAPE, zeros(0, 1), [], (0,))),
    (layer.ZeroTableWidth(), lambda: embedding(TAPE, zeros(1, 0), [], (0,))),
    (layer.TokenShape((-1, 2)), lambda: embedding(TAPE, zeros(1, 1), [], (-1, 2))),
    (layer.TokenCountMismatch(2, 1), lambda: embedding(TAPE, zeros(1, 1), [0], (2,))),
    (layer.TokenIdOutOfBounds(0, 7, 3), lambda: embedding(TAPE, zeros(3, 1), [7], (1,))),
    (layer.WeightRank(1), lambda: linear(TAPE, zeros(1, 1), zeros(1))),
    (layer.ZeroInputWidth(), lambda: linear(TAPE, zeros(1, 0), zeros(0, 1))),
    (layer.ZeroOutputWidth(), lambda: linear(TAPE, zeros(1, 1), zeros(1, 0))),
    (layer.BiasRank(2), lambda: linear(TAPE, zeros(1, 1), zeros(1, 1), zeros(1, 1))),
    (layer.BiasWidthMismatch(1, 2), lambda: linear(TAPE, zeros(1, 1), zeros(1, 1), zeros(2))),
    (layer.InputRank(1), lambda: linear(TAPE, zeros(1), zeros(1, 1))),
    (layer.InputWidthMismatch(2, 3), lambda: linear(TAPE, zeros(1, 3), zeros(2, 1))),
    (
        layer.ProjectionFailed("down", str(layer.ZeroOutputWidth())),
        lambda: swiglu(TAPE, zeros(1, 1), zeros(1, 1), zeros(1, 1), zeros(1, 0)),
    ),
    (
        layer.GateFailed("elementwise gate", str(graph.NonFiniteForward("multiply", 0, math.inf))),
        lambda: swiglu(TAPE, filled(1e200, 1, 1), filled(1.0, 1, 1), filled(1.0, 1, 1), filled(1.0, 1, 1)),
    ),
    (
        layer.BranchInputWidthMismatch(2, 3),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(3, 1), zeros(1, 1)),
    ),
    (
        layer.BranchHiddenWidthMismatch(1, 4),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(2, 4), zeros(1, 1)),
    ),
    (
        layer.DownInputWidthMismatch(1, 5),
        lambda: swiglu(TAPE, zeros(1, 2), zeros(2, 1), zeros(2, 1), zeros(5, 1)),
    ),
]

CASES: list[Case] = [*SHAPES, *PROBABILITIES, *GRAPHS, *LAYERS]
