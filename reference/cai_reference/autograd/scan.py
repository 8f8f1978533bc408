"""The linear recurrence of a diagonal state-space model, over a whole sequence.

For every channel, h_t = (a·h_{t−1}) + (b·x_t) with h_{−1} = 0, and y_t = (c·h_t) + (e·x_t). The gradient runs
backwards through time (Gu, Gupta, Goel and Ré, "On the parameterization and initialization of diagonal state space
models", 2022; the scan here is sequential).
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable


def diagonal_scan(tape: Tape, x: Variable, a: Variable, b: Variable, c: Variable, e: Variable) -> Variable:
    """Run the recurrence over the token axis.

    Args:
        tape: what records.
        x: shape [batch, tokens, width].
        a: the decay, shape [width].
        b: the input gain, shape [width].
        c: the output gain, shape [width].
        e: the skip gain, shape [width].

    Returns:
        y of shape [batch, tokens, width].
    """
    tokens = x.shape[1]
    before = np.zeros(x.shape)
    states = np.zeros(x.shape)
    state = np.zeros((x.shape[0], x.shape[2]))
    # Overflow is reported by the tape as an error with a place, not as a warning without one.
    with np.errstate(over="ignore", invalid="ignore"):
        for token in range(tokens):
            before[:, token] = state
            # the products are rounded before they are added
            state = (a.value * state) + (b.value * x.value[:, token])
            states[:, token] = state
        value = (c.value * states) + (e.value * x.value)

    def pullback(adjoint: Array) -> tuple[Array, Array, Array, Array, Array]:
        toward_states = np.zeros(x.shape)
        later = np.zeros(state.shape)
        for token in reversed(range(tokens)):
            # backwards in time: what h_t does to y_t, then to h_{t+1}
            later = (c.value * adjoint[:, token]) + (a.value * later)
            toward_states[:, token] = later
        total = tape.arithmetic.sum
        return (
            (b.value * toward_states) + (e.value * adjoint),
            # ∂h_t/∂a = h_{t−1}; sums over batch and tokens, row-major
            total(toward_states * before, axis=(0, 1)),
            total(toward_states * x.value, axis=(0, 1)),
            total(adjoint * states, axis=(0, 1)),
            total(adjoint * x.value, axis=(0, 1)),
        )

    return tape.record("diagonal scan", value, (x, a, b, c, e), pullback)
