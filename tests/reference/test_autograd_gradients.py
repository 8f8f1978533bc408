"""Every operation's gradient against central differences, in all three arithmetics."""

from __future__ import annotations

import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.autograd.features import from_flat, mean_over, softmax
from cai_reference.autograd.operations import add, gather, matmul, multiply, reshape, silu, swap_axes
from cai_reference.autograd.probability import causal_softmax, mean_nll
from cai_reference.layers.matrices import embedding
from cai_reference.layers.projection import linear
from cai_reference.layers.swiglu import swiglu
from support_differences import Build, check_gradients, drawn

Shapes = tuple[tuple[int, ...], ...]

CASES: dict[str, tuple[Build, Shapes]] = {
    "add": (lambda tape, p: add(tape, p[0], p[1]), ((2, 3), (2, 3))),
    "add a row": (lambda tape, p: add(tape, p[0], p[1]), ((2, 3), (3,))),
    "add crosswise": (lambda tape, p: add(tape, p[0], p[1]), ((3, 1), (2, 1, 4))),
    "add a scalar": (lambda tape, p: add(tape, p[0], p[1]), ((), (2, 2))),
    "add a single element": (lambda tape, p: add(tape, p[0], p[1]), ((1, 1, 1), (2,))),
    "multiply": (lambda tape, p: multiply(tape, p[0], p[1]), ((2, 3), (2, 3))),
    "multiply crosswise": (lambda tape, p: multiply(tape, p[0], p[1]), ((3, 1), (1, 4))),
    "multiply a scalar": (lambda tape, p: multiply(tape, p[0], p[1]), ((2, 3), ())),
    "square": (lambda tape, p: multiply(tape, p[0], p[0]), ((5,),)),
    "double": (lambda tape, p: add(tape, p[0], p[0]), ((5,),)),
    "silu": (lambda tape, p: silu(tape, p[0]), ((7,),)),
    "reshape": (lambda tape, p: reshape(tape, p[0], (3, 2)), ((2, 3),)),
    "reshape to a scalar": (lambda tape, p: reshape(tape, p[0], ()), ((1, 1),)),
    "swap axes": (lambda tape, p: swap_axes(tape, p[0], 0, 2), ((2, 3, 4),)),
    "gather, ids repeated": (lambda tape, p: gather(tape, p[0], [2, 0, 2, 2, 1, 0], (3, 2)), ((4, 3),)),
    "gather nothing": (lambda tape, p: gather(tape, p[0], [], (0, 2)), ((4, 3),)),
    "mean": (lambda tape, p: mean_over(tape, p[0], 1), ((2, 3, 2),)),
    "matmul": (lambda tape, p: matmul(tape, p[0], p[1]), ((2, 3), (3, 4))),
    "matmul, many": (lambda tape, p: matmul(tape, p[0], p[1]), ((2, 3, 2), (2, 2, 2))),
    "matmul, one weight for all": (lambda tape, p: matmul(tape, p[0], p[1]), ((2, 3, 2), (2, 2))),
    "matmul, crosswise": (lambda tape, p: matmul(tape, p[0], p[1]), ((2, 1, 2, 3), (3, 3, 2))),
    "matmul of itself": (lambda tape, p: matmul(tape, p[0], p[0]), ((3, 3),)),
    "softmax of the last axis": (lambda tape, p: softmax(tape, p[0], 1), ((3, 4),)),
    "softmax of the first axis": (lambda tape, p: softmax(tape, p[0], 0), ((3, 2, 2),)),
    "softmax of one class": (lambda tape, p: softmax(tape, p[0], 1), ((3, 1),)),
    "causal softmax": (lambda tape, p: causal_softmax(tape, p[0]), ((2, 3, 3),)),
    "mean nll": (lambda tape, p: mean_nll(tape, p[0], [3, 0, 3]), ((3, 4),)),
    "mean nll of more axes": (lambda tape, p: mean_nll(tape, p[0], [1, 1, 0, 2]), ((2, 2, 3),)),
    "embedding": (lambda tape, p: embedding(tape, p[0], [1, 1, 0, 1], (2, 2)), ((3, 2),)),
    "linear": (lambda tape, p: linear(tape, p[0], p[1]), ((2, 3), (3, 2))),
    "linear with bias": (lambda tape, p: linear(tape, p[0], p[1], p[2]), ((2, 2, 3), (3, 2), (2,))),
    "swiglu": (lambda tape, p: swiglu(tape, *p), ((2, 3), (3, 4), (3, 4), (4, 2))),
    "attention with a residual": (
        lambda tape, p: add(
            tape, matmul(tape, causal_softmax(tape, matmul(tape, p[0], swap_axes(tape, p[0], 0, 1))), p[0]), p[0]
        ),
        ((3, 2),),
    ),
}


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize(("build", "shapes"), CASES.values(), ids=CASES)
def test_gradients_are_slopes(build: Build, shapes: Shapes, arithmetic: Arithmetic) -> None:
    """Within the bound of the difference quotient, for every operand and every element."""
    check_gradients(build, [drawn(shape, 7 + number) for number, shape in enumerate(shapes)], arithmetic)


@pytest.mark.parametrize(("x", "slope"), [(0.0, 0.5), (-0.0, 0.5), (800.0, 1.0), (-800.0, 0.0)])
def test_the_slope_of_silu_at_its_landmarks(x: float, slope: float) -> None:
    """Half at zero, one far right, nothing far left."""
    parameter = Parameter("x", from_flat([x], (1,)))
    backward(silu(Tape(STRICT), parameter))
    assert [slope] == parameter.gradient.tolist()
