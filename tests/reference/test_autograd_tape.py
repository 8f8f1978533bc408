"""What a tape keeps and refuses: recording, releasing, revisions, numbers out of range, and nothing half done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic import STRICT
from cai_reference.autograd import (
    Parameter,
    Tape,
    Variable,
    add,
    backward,
    broadcast_to,
    gather,
    log_softmax,
    matmul,
    mean_over,
    multiply,
    softmax,
    sum_over,
)
from cai_reference.autograd.errors import (
    AssignedShapeMismatch,
    GraphReleased,
    NonFiniteAccumulatedGradient,
    NonFiniteForward,
    NonFiniteLeaf,
    NonFinitePassAdjoint,
    NonFiniteSeed,
    NonFiniteVjp,
    NotAParameter,
    ReleasedOperand,
    SeedShapeMismatch,
    StaleOperandValue,
    UntrackedOutput,
)
from cai_reference.errors import CaiReferenceError
from support_raising import raises

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
    with raises(UntrackedOutput("multiply")):
        backward(quiet)


def test_constants_are_not_recorded() -> None:
    """What depends on no parameter keeps no operands."""
    result = add(TAPE, constant(1.0), constant(2.0))
    assert ((), False) == (result.parents, result.tracked)
    with raises(UntrackedOutput("add")):
        backward(result)


def test_a_detached_value_stops_the_gradient() -> None:
    """X · detach(x) has the slope x, not 2x."""
    x = vector("x", 3.0)
    detached = TAPE.detach(x)
    assert ("detach", [3.0]) == (detached.operation, detached.value.tolist())
    backward(multiply(TAPE, x, detached))
    assert [3.0] == x.gradient.tolist()


def test_a_graph_is_swept_once() -> None:
    """Afterwards it is released, and keeps no operands alive."""
    x = vector("x", 3.0)
    inner = multiply(TAPE, x, x)
    output = add(TAPE, inner, x)
    backward(output)
    assert (True, (), None) == (inner.released, inner.parents, inner.pullback)
    assert not x.released
    with raises(GraphReleased("add")):
        backward(output)
    with raises(GraphReleased("multiply")):
        backward(inner)
    with raises(ReleasedOperand("multiply", 1)):
        multiply(TAPE, x, inner)
    with raises(ReleasedOperand("multiply", 0)):
        multiply(QUIET, inner, x)
    assert [9.0] == TAPE.detach(inner).value.tolist()


def test_a_graph_that_shares_values_with_a_swept_one_is_refused() -> None:
    """Its gradient would be silently too small."""
    x = vector("x", 3.0)
    shared = multiply(TAPE, x, x)
    first, second = add(TAPE, shared, x), multiply(TAPE, x, shared)
    backward(first)
    with raises(ReleasedOperand("multiply", 1)):
        backward(second)
    assert [7.0] == x.gradient.tolist()


def test_a_parameter_may_not_change_between_forward_and_backward() -> None:
    """The sweep would mix old and new values."""
    x, y = vector("x", 3.0), vector("y", 2.0)
    output = multiply(TAPE, y, x)
    x.assign(np.array([5.0]))
    x.assign(np.array([6.0]))
    with raises(StaleOperandValue("multiply", "x", 1, 0, 2)):
        backward(output)
    assert [0.0] == y.gradient.tolist()
    backward(multiply(TAPE, y, x))
    assert ([6.0], [2.0]) == (y.gradient.tolist(), x.gradient.tolist())


def test_a_seed_fits_its_output() -> None:
    """In shape, and in being finite; a failed attempt leaves the graph usable."""
    x = vector("x", 3.0, 4.0)
    output = multiply(TAPE, x, x)
    with raises(SeedShapeMismatch((2,), (1, 2))):
        backward(output, np.ones((1, 2)))
    with raises(NonFiniteSeed(1, float("nan"))):
        backward(output, np.array([1.0, np.nan]))
    assert not output.released
    backward(output, np.array([1.0, 10.0]))
    assert [6.0, 80.0] == x.gradient.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_leaves_are_finite(value: float) -> None:
    """Constants, parameters, and what a parameter is set to."""
    values = np.array([[1.0, 2.0], [value, np.nan]])
    with raises(NonFiniteLeaf("constant", 2, value)):
        TAPE.constant(values)
    with raises(NonFiniteLeaf("p", 2, value)):
        Parameter("p", values)
    parameter = Parameter("p", np.zeros((2, 2)))
    with raises(NonFiniteLeaf("p", 2, value)):
        parameter.assign(values)
    assert (0, [[0.0, 0.0], [0.0, 0.0]]) == (parameter.revision, parameter.value.tolist())


def test_a_parameter_keeps_its_shape() -> None:
    """Setting it to other lengths is refused, even if the number of elements is the same."""
    parameter = vector("p", 1.0, 2.0)
    for shape in ((3,), (2, 1), ()):
        with raises(AssignedShapeMismatch("p", (2,), shape)):
            parameter.assign(np.zeros(shape))


def test_only_parameters_store_gradients() -> None:
    """A constant and a result have none, to read or to zero."""
    for variable in (constant(1.0), add(TAPE, vector("x", 1.0), constant(1.0))):
        with raises(NotAParameter(variable.operation)):
            _ = variable.gradient
        with raises(NotAParameter(variable.operation)):
            variable.zero_gradient()


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
    "add": (lambda: add(TAPE, constant(0.0, LARGE), constant(0.0, LARGE)), NonFiniteForward("add", 1, np.inf)),
    "multiply": (lambda: multiply(TAPE, constant(-LARGE), constant(LARGE)), NonFiniteForward("multiply", 0, -np.inf)),
    "matmul": (lambda: matmul(TAPE, column(1.0, LARGE), column(2.0)), NonFiniteForward("matmul", 1, np.inf)),
    "sum": (lambda: sum_over(TAPE, constant(LARGE, LARGE), 0), NonFiniteForward("sum", 0, np.inf)),
    "mean": (lambda: mean_over(TAPE, constant(LARGE, LARGE), 0), NonFiniteForward("mean", 0, np.inf)),
    "log-softmax": (
        lambda: log_softmax(TAPE, constant(LARGE, -LARGE), 0),
        NonFiniteForward("log-softmax", 1, -np.inf),
    ),
}


@pytest.mark.parametrize(("operation", "expected"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_results_are_finite(operation: Callable[[], object], expected: CaiReferenceError) -> None:
    """Overflow is an error that names operation, place and value, on either kind of tape, and no warning."""
    with raises(expected):
        operation()


# Each case returns an output, a seed for it, and the error that the sweep must end in.
Sweep = Callable[[Parameter], tuple[Variable, list[float], CaiReferenceError]]

SWEEPS: dict[str, Sweep] = {
    "multiply": lambda x: (
        multiply(TAPE, x, constant(0.0, 4.0)),
        [0.0, LARGE],
        NonFiniteVjp("multiply", "x", 0, 1, np.inf),
    ),
    "right operand": lambda x: (
        multiply(TAPE, constant(0.0, 4.0), x),
        [0.0, -LARGE],
        NonFiniteVjp("multiply", "x", 1, 1, -np.inf),
    ),
    "repetition": lambda x: (
        sum_over(TAPE, broadcast_to(TAPE, x, (2, 2)), 1),
        [LARGE, LARGE],
        NonFiniteVjp("broadcast", "x", 0, 0, np.inf),
    ),
    "softmax": lambda x: (softmax(TAPE, x, 0), [-LARGE, LARGE], NonFiniteVjp("softmax", "x", 0, 1, np.inf)),
    "log-softmax": lambda x: (log_softmax(TAPE, x, 0), [LARGE, LARGE], NonFiniteVjp("log-softmax", "x", 0, 0, -np.inf)),
    "sum of contributions": lambda x: (
        add(TAPE, x, x),
        [1.0, LARGE],
        NonFinitePassAdjoint("x", 1, LARGE, LARGE),
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
    backward(output, np.zeros(2))
    assert ([5.0, 6.0], True) == (x.gradient.tolist(), output.released)


def test_gathering_overflow_is_an_error_too() -> None:
    """Two uses of a row add up within one contribution."""
    table = Parameter("table", np.zeros((3, 1)))
    with raises(NonFiniteVjp("gather", "table", 0, 2, np.inf)):
        backward(gather(TAPE, table, [2, 2], (2,)), np.full((2, 1), LARGE))


def test_a_stored_gradient_may_not_overflow_and_none_is_stored_then() -> None:
    """The second parameter fails, the first keeps its gradient."""
    x, y = vector("x", 1.0), vector("y", 1.0)
    backward(y, np.array([LARGE]))
    with raises(NonFiniteAccumulatedGradient("y", 0, LARGE, LARGE)):
        backward(add(TAPE, x, y), np.array([LARGE]))
    assert ([0.0], [LARGE]) == (x.gradient.tolist(), y.gradient.tolist())
