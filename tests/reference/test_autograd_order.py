"""The order in which contributions add up, and that no negative zero is left: bits, not numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.features import softmax
from cai_reference.autograd.operations import add, gather, multiply
from cai_reference.autograd.probability import causal_softmax, mean_nll, mean_nll_of
from cai_reference.layers.swiglu import swiglu
from support_differences import drawn
from support_ngram_oracle import row_times, row_times_transposed, sigmoid

# 1 + TINY is 1, but 1 + (TINY + TINY) is the double after 1: three terms show the order in which they were added.
TINY = 2.0**-53
NEXT = 1.0 + 2.0**-52


def vector(name: str, *values: float) -> Parameter:
    """Return a parameter of shape [n]."""
    return Parameter(name, np.array(values))


def positive_zeros(values: Array) -> bool:
    """Tell whether every zero is +0.0."""
    return not np.signbit(values[values == 0.0]).any()


@pytest.mark.parametrize(
    ("factors", "gradient"), [((1.0, TINY, TINY), NEXT), ((TINY, TINY, 1.0), 1.0), ((TINY, 1.0, TINY), 1.0)]
)
def test_contributions_add_up_in_the_reverse_of_the_post_order(
    factors: tuple[float, float, float], gradient: float
) -> None:
    """Of three uses the last one recorded contributes first."""
    tape = Tape(STRICT)
    x = vector("x", 1.0)
    first, second, third = (multiply(tape, x, tape.constant(np.array([factor]))) for factor in factors)
    backward(add(tape, add(tape, first, second), third))
    assert [gradient] == x.gradient.tolist()


def test_the_order_is_that_of_the_graph_not_of_the_calls() -> None:
    """Nodes are visited from the output, operands in order, however late an operand was recorded."""
    tape = Tape(STRICT)
    x = vector("x", 1.0)
    third, second, first = (multiply(tape, x, tape.constant(np.array([factor]))) for factor in (TINY, TINY, 1.0))
    backward(add(tape, add(tape, first, second), third))
    assert [NEXT] == x.gradient.tolist()


def test_a_shared_value_is_swept_once() -> None:
    """All contributions to an inner value are summed before it passes them on."""
    tape = Tape(STRICT)
    x = vector("x", 1.0)
    shared = multiply(tape, x, tape.constant(np.array([3.0])))
    backward(add(tape, multiply(tape, shared, shared), shared))
    # d(9x² + 3x)/dx at 1
    assert [21.0] == x.gradient.tolist()


def test_a_long_chain_needs_no_deep_stack() -> None:
    """Three thousand operations in a row, three times as many as calls may be nested."""
    tape = Tape(STRICT)
    x = vector("x", 1.0)
    total: Variable = x
    for _ in range(3_000):
        total = add(tape, total, x)
    backward(total)
    assert [3_001.0] == x.gradient.tolist()


def test_gathered_rows_add_up_in_row_major_order() -> None:
    """Repeated ids contribute in the order of the ids."""
    for seed, gradient in ([1.0, TINY, TINY], 1.0), ([TINY, TINY, 1.0], NEXT):
        table = Parameter("table", np.zeros((2, 1)))
        backward(gather(Tape(STRICT), table, [1, 1, 1], (3,)), np.array(seed).reshape(3, 1))
        assert [[0.0], [gradient]] == table.gradient.tolist()


def test_broadcast_axes_add_up_ascending_as_one() -> None:
    """Over two repeated axes the sum is one row-major sum, not a sum of sums."""
    x = Parameter("x", np.zeros((1, 1)))
    tape = Tape(STRICT)
    seed = np.array([[1.0, TINY], [TINY, TINY]])
    backward(add(tape, x, tape.constant(np.zeros((2, 2)))), seed)
    assert [[1.0]] == x.gradient.tolist()


def hand_swiglu_input_gradient(
    x: list[float], gate: list[list[float]], up: list[list[float]], down: list[list[float]], seed: list[float]
) -> tuple[list[float], list[float]]:
    """Return du·upᵀ and dg·gateᵀ for one row, from the formulas."""
    g, u = row_times(x, gate), row_times(x, up)
    s = [sigmoid(value, math.exp) for value in g]
    dp = row_times_transposed(seed, down)
    du = [p * (a * b) for p, a, b in zip(dp, g, s, strict=True)]
    dg = [(p * v) * (b * (1.0 + a * (1.0 - b))) for p, v, a, b in zip(dp, u, g, s, strict=True)]
    return row_times_transposed(du, up), row_times_transposed(dg, gate)


def test_the_up_branch_contributes_before_the_gate_branch() -> None:
    """With a residual as the third contribution the order shows: ((0 + residual) + up) + gate, in every bit."""
    shapes = ((1, 8), (8, 8), (8, 8), (8, 8))
    values = [drawn(shape, 40 + number) for number, shape in enumerate(shapes)]
    seed = drawn((1, 8), 50)
    x, gate, up, down = (Parameter(f"p{number}", value) for number, value in enumerate(values))
    tape = Tape(LIBM)
    backward(add(tape, swiglu(tape, x, gate, up, down), x), seed)

    row, upstream = values[0][0].tolist(), seed[0].tolist()
    from_up, from_gate = hand_swiglu_input_gradient(
        row, values[1].tolist(), values[2].tolist(), values[3].tolist(), upstream
    )
    through = [((0.0 + r) + u) + g for r, u, g in zip(upstream, from_up, from_gate, strict=True)]
    other_way = [((0.0 + r) + g) + u for r, u, g in zip(upstream, from_up, from_gate, strict=True)]
    assert through != other_way, "these numbers would not show the order"
    assert [through] == x.gradient.tolist()


def test_a_negative_zero_does_not_survive_the_sweep() -> None:
    """Adjoints start at +0.0, so -0.0 as a seed or as a contribution becomes +0.0."""
    x, y = vector("x", 2.0, -3.0), vector("y", -1.0, 0.0)
    backward(multiply(Tape(STRICT), x, y), np.array([0.0, -0.0]))
    assert positive_zeros(x.gradient)
    assert positive_zeros(y.gradient)
    z = vector("z", 1.0)
    backward(z, np.array([-0.0]))
    assert positive_zeros(z.gradient)


def test_every_adjoint_starts_at_positive_zero() -> None:
    """Inside the graph too: an operation of one's own sees +0.0 where the seed, or a contribution, was -0.0."""
    seen: list[Array] = []

    def spy(tape: Tape, x: Variable) -> Variable:
        def pullback(adjoint: Array) -> tuple[Array]:
            seen.append(adjoint)
            return (-adjoint,)

        return tape.record("spy", x.value, (x,), pullback)

    tape = Tape(STRICT)
    backward(spy(tape, spy(tape, vector("x", 1.0))), np.array([-0.0]))
    assert 2 == len(seen)
    assert all(positive_zeros(adjoint) for adjoint in seen)


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM], ids=lambda arithmetic: arithmetic.identifier)
def test_probabilities_and_their_gradients_hold_no_negative_zero(arithmetic: Arithmetic) -> None:
    """Underflow gives +0.0, forward and backward."""
    tape = Tape(arithmetic)
    logits = Parameter("logits", np.array([[0.0, -800.0, -1.0], [-900.0, 0.0, -900.0]]))
    probabilities = softmax(tape, logits, 1)
    assert positive_zeros(probabilities.value)
    backward(probabilities, np.array([[-1.0, -2.0, 3.0], [-1.0, -1.0, -1.0]]))
    assert positive_zeros(logits.gradient)
    logits.zero_gradient()
    backward(mean_nll(tape, logits, [0, 1]), np.array(-0.0))
    assert positive_zeros(logits.gradient)


def test_masked_weights_and_their_gradients_are_positive_zeros() -> None:
    """Above the diagonal nothing is seen and nothing flows."""
    scores = Parameter("scores", drawn((4, 4), 3))
    weights = causal_softmax(Tape(STRICT), scores)
    above = np.triu_indices(4, 1)
    backward(weights, -np.abs(drawn((4, 4), 4)))
    for values in (weights.value, scores.gradient):
        assert (values[above] == 0.0).all()
        assert positive_zeros(values)


def test_a_loss_of_nothing_is_positive() -> None:
    """One class is certain: +0.0, not -0.0."""
    assert 1.0 == math.copysign(1.0, mean_nll_of(STRICT, np.array([[-5.0], [7.0]]), [0, 0]))
