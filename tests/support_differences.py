"""Central differences: the gradient of any graph, from its values alone.

The quotient (f(x+h) − f(x−h)) / 2h is off by h²/6 · f‴ plus the rounding of f divided by h; with h = 6e-6 both are
near 1e-11 for the values of order 1 that these tests use. Gradients must agree within BOUND, relative to the larger
of 1 and the quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.splitmix import SplitMix64

STEP = 6e-6
BOUND = 1e-8

Build = Callable[[Tape, list[Parameter]], Variable]


def drawn(shape: tuple[int, ...], seed: int, scale: float = 1.5) -> Array:
    """Return doubles in (−scale, scale), the same for the same seed."""
    generator = SplitMix64(seed)
    values = [scale * (2.0 * generator.unit() - 1.0) for _ in range(math.prod(shape))]
    return np.array(values).reshape(shape)


def check_gradients(build: Build, values: Sequence[Array], arithmetic: Arithmetic) -> None:
    """Require that backward agrees with central differences of Σ weight · output, the weights drawn."""
    parameters = [Parameter(f"p{number}", value) for number, value in enumerate(values)]
    output = build(Tape(arithmetic), parameters)
    weights = drawn(output.shape, 99, 1.0)
    backward(output, weights)

    def scalar(changed: list[Array]) -> float:
        inputs = [Parameter(f"p{number}", value) for number, value in enumerate(changed)]
        result = build(Tape(arithmetic, recording=False), inputs)
        return math.fsum((weights * result.value).ravel().tolist())

    for number, value in enumerate(values):
        for index in np.ndindex(value.shape):
            quotients = []
            for sign in (1.0, -1.0):
                changed = [other.copy() for other in values]
                changed[number][index] += sign * STEP
                quotients.append(sign * scalar(changed))
            quotient = math.fsum(quotients) / (2.0 * STEP)
            gradient = float(parameters[number].gradient[index])
            assert abs(gradient - quotient) <= BOUND * max(1.0, abs(quotient)), (number, index, gradient, quotient)
