"""What a tape keeps and refuses: recording, releasing, revisions, numbers out of range, and nothing half done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import SweepError, backward
from cai_reference.autograd.features import mean_over, softmax
from cai_reference.autograd.operations import add, gather, matmul, multiply
from cai_reference.errors import AutogradError, CaiReferenceError
from support_refusals import raises

TAPE = Tape(STRICT)
QUIET = Tape(STRICT, recording=False)
LARGE = 1.7e308


def vector(name: str, *values: float) -> Parameter:
    """Return a parameter of shape [n]."""
    return Parameter(name, np.array(values))


def constant(*values: float) -> Variable:
    """Return a constant of shape [n]."""
    return TAPE.constant(np.array(values))


def test_two_passes_add_up() -> None:
    """A gradient is the sum since it was last zeroed."""
    x = vector("x", 3.0)
    backward(multiply(TAPE, x, x))
    backward(multiply(TAPE, x, x))
    assert [12.0] == x.gradient.tolist()
    x.zero_gradient()
    assert [0.0] == x.gradient.tolist()
    backward(multiply(TAPE, x, x), np.array([0.5]))
    assert [3.0] == x.gradient.tolist()


def test_a_parameter_is_its_own_graph() -> None:
    """Sweeping a parameter adds the seed, as often as one likes."""
    x = vector("x", 3.0)
    backward(x)
    backward(x, np.array([2.0]))
    assert [3.0] == x.gradient.tolist()


def test_a_tape_that_does_not_record_keeps_nothing() -> None:
    """The same value, no operands, no way back."""
    x, y = vector("x", 3.0), vector("y", 4.0)
    recorded, quiet = multiply(TAPE, x, y), multiply(QUIET, x, y)
    assert recorded.value.tolist() == quiet.value.tolist() == [12.0]
    assert ((x, y), True) == (recorded.parents, recorded.tracked)
    assert ((), None, False) == (quiet.parents, quiet.pullback, quiet.tracked)
    with raises(SweepError("untracked-output", operation="multiply")):
        backward(quiet)


def test_constants_are_not_recorded() -> None:
    """What depends on no parameter keeps no operands."""
    result = add(TAPE, constant(1.0), constant(2.0))
    assert ((), False) == (result.parents, result.tracked)
    with raises(SweepError("untracked-output", operation="add")):
        backward(result)


def test_a_constant_stops_the_gradient() -> None:
    """X · c has the slope c, although c is the value of x."""
    x = vector("x", 3.0)
    backward(multiply(TAPE, x, TAPE.constant(x.value)))
    assert [3.0] == x.gradient.tolist()


def test_a_graph_is_swept_once() -> None:
    """Afterwards it is released, and keeps no operands alive."""
    x = vector("x", 3.0)
    inner = multiply(TAPE, x, x)
    output = add(TAPE, inner, x)
    backward(output)
    assert (True, (), None) == (inner.released, inner.parents, inner.pullback)
    assert not x.released
    with raises(SweepError("graph-released", operation="add")):
        backward(output)
    with raises(SweepError("graph-released", operation="multiply")):
        backward(inner)
    with raises(AutogradError("released-operand", operation="multiply", operand=1)):
        multiply(TAPE, x, inner)
    with raises(AutogradError("released-operand", operation="multiply", operand=0)):
        multiply(QUIET, inner, x)
    assert [9.0] == inner.value.tolist()


def test_a_graph_that_shares_values_with_a_swept_one_is_refused() -> None:
    """Its gradient would be silently too small."""
    x = vector("x", 3.0)
    shared = multiply(TAPE, x, x)
    first, second = add(TAPE, shared, x), multiply(TAPE, x, shared)
    backward(first)
    with raises(AutogradError("released-operand", operation="multiply", operand=1)):
        backward(second)
    assert [7.0] == x.gradient.tolist()


def test_a_parameter_may_not_change_between_forward_and_backward() -> None:
    """The sweep would mix old and new values."""
    x, y = vector("x", 3.0), vector("y", 2.0)
    output = multiply(TAPE, y, x)
    x.assign(np.array([5.0]))
    x.assign(np.array([6.0]))
    with raises(
        SweepError(
            "stale-operand-value", child="multiply", parent="x", operand=1, recorded_revision=0, current_revision=2
        )
    ):
        backward(output)
    assert [0.0] == y.gradient.tolist()
    backward(multiply(TAPE, y, x))
    assert ([6.0], [2.0]) == (y.gradient.tolist(), x.gradient.tolist())


def test_a_seed_fits_its_output() -> None:
    """In shape, and in being finite; a failed attempt leaves the graph usable."""
    x = vector("x", 3.0, 4.0)
    output = multiply(TAPE, x, x)
    with raises(SweepError("seed-shape-mismatch", expected=(2,), actual=(1, 2))):
        backward(output, np.ones((1, 2)))
    with raises(SweepError("non-finite-seed", index=1, value=float("nan"))):
        backward(output, np.array([1.0, np.nan]))
    assert not output.released
    backward(output, np.array([1.0, 10.0]))
    assert [6.0, 80.0] == x.gradient.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_leaves_are_finite(value: float) -> None:
    """Constants, parameters, and what a parameter is set to."""
    values = np.array([[1.0, 2.0], [value, np.nan]])
    with raises(AutogradError("non-finite-leaf", operation="constant", index=2, value=value)):
        TAPE.constant(values)
    with raises(AutogradError("non-finite-leaf", operation="p", index=2, value=value)):
        Parameter("p", values)
    parameter = Parameter("p", np.zeros((2, 2)))
    with raises(AutogradError("non-finite-leaf", operation="p", index=2, value=value)):
        parameter.assign(values)
    assert (0, [[0.0, 0.0], [0.0, 0.0]]) == (parameter.revision, parameter.value.tolist())


def test_a_parameter_keeps_its_shape() -> None:
    """Setting it to other lengths is refused, even if the number of elements is the same."""
    parameter = vector("p", 1.0, 2.0)
    for shape in ((3,), (2, 1), ()):
        with raises(AutogradError("assigned-shape-mismatch", name="p", expected=(2,), actual=shape)):
            parameter.assign(np.zeros(shape))


def test_only_parameters_store_gradients() -> None:
    """A constant and a result have none."""
    for variable in (constant(1.0), add(TAPE, vector("x", 1.0), constant(1.0))):
        with raises(AutogradError("not-a-parameter", operation=variable.operation)):
            _ = variable.gradient


def test_values_and_gradients_cannot_be_written() -> None:
    """Only `assign` and the sweep change them."""
    x = vector("x", 1.0)
    for array in (x.value, x.gradient, add(TAPE, x, x).value):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2.0


def column(*values: float) -> Variable:
    """Return a constant of shape [n, 1]."""
    return TAPE.constant(np.array(values).reshape(-1, 1))


OVERFLOWS: dict[str, tuple[Callable[[], object], CaiReferenceError]] = {
    "add": (
        lambda: add(TAPE, constant(0.0, LARGE), constant(0.0, LARGE)),
        AutogradError("non-finite-forward", operation="add", index=1, value=np.inf),
    ),
    "multiply": (
        lambda: multiply(TAPE, constant(-LARGE), constant(LARGE)),
        AutogradError("non-finite-forward", operation="multiply", index=0, value=-np.inf),
    ),
    "matmul": (
        lambda: matmul(TAPE, column(1.0, LARGE), column(2.0)),
        AutogradError("non-finite-forward", operation="matmul", index=1, value=np.inf),
    ),
    "mean": (
        lambda: mean_over(TAPE, constant(LARGE, LARGE), 0),
        AutogradError("non-finite-forward", operation="mean", index=0, value=np.inf),
    ),
}


@pytest.mark.parametrize(("operation", "expected"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_results_are_finite(operation: Callable[[], object], expected: CaiReferenceError) -> None:
    """Overflow is an error that names operation, place and value, on either kind of tape, and no warning."""
    with raises(expected):
        operation()


# Each case returns an output, a seed for it, and the error that the sweep must end in.
Sweep = Callable[[Parameter], tuple[Variable, object, CaiReferenceError]]

SWEEPS: dict[str, Sweep] = {
    "multiply": lambda x: (
        multiply(TAPE, x, constant(0.0, 4.0)),
        [0.0, LARGE],
        SweepError("non-finite-vjp", child="multiply", parent="x", operand=0, index=1, value=np.inf),
    ),
    "right operand": lambda x: (
        multiply(TAPE, constant(0.0, 4.0), x),
        [0.0, -LARGE],
        SweepError("non-finite-vjp", child="multiply", parent="x", operand=1, index=1, value=-np.inf),
    ),
    "repetition": lambda x: (
        add(TAPE, x, TAPE.constant(np.zeros((2, 2)))),
        [[LARGE, LARGE], [LARGE, LARGE]],
        SweepError("non-finite-vjp", child="add", parent="x", operand=0, index=0, value=np.inf),
    ),
    "softmax": lambda x: (
        softmax(TAPE, x, 0),
        [-LARGE, LARGE],
        SweepError("non-finite-vjp", child="softmax", parent="x", operand=0, index=1, value=np.inf),
    ),
    "sum of contributions": lambda x: (
        add(TAPE, x, x),
        [1.0, LARGE],
        SweepError("non-finite-pass-adjoint", node="x", index=1, previous=LARGE, contribution=LARGE),
    ),
}


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_a_sweep_that_leaves_the_range_changes_nothing(sweep: Sweep) -> None:
    """The error says where; gradients stay, and the graph can be swept with a smaller seed."""
    x = vector("x", 0.5, 0.25)
    backward(x, np.array([5.0, 6.0]))
    output, seed, expected = sweep(x)
    with raises(expected):
        backward(output, np.array(seed))
    assert [5.0, 6.0] == x.gradient.tolist()
    backward(output, np.zeros(output.shape))
    assert ([5.0, 6.0], True) == (x.gradient.tolist(), output.released)


def test_gathering_overflow_is_an_error_too() -> None:
    """Two uses of a row add up within one contribution."""
    table = Parameter("table", np.zeros((3, 1)))
    with raises(SweepError("non-finite-vjp", child="gather", parent="table", operand=0, index=2, value=np.inf)):
        backward(gather(TAPE, table, [2, 2], (2,)), np.full((2, 1), LARGE))


def test_a_stored_gradient_may_not_overflow_and_none_is_stored_then() -> None:
    """The second parameter fails, the first keeps its gradient."""
    x, y = vector("x", 1.0), vector("y", 1.0)
    backward(y, np.array([LARGE]))
    with raises(SweepError("non-finite-accumulated-gradient", node="y", index=0, stored=LARGE, pass_adjoint=LARGE)):
        backward(add(TAPE, x, y), np.array([LARGE]))
    assert ([0.0], [LARGE]) == (x.gradient.tolist(), y.gradient.tolist())
