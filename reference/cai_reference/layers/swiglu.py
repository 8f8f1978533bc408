"""The SwiGLU feed-forward layer: h = (SiLU(x Wg) · (x Wu)) Wd.

`gate` is the branch through SiLU, `up` the linear one, `down` the way back (Shazeer, "GLU variants improve
Transformer", 2020; course, chapter 20). No biases.
"""

from __future__ import annotations

from cai_reference.autograd import Tape, Variable, multiply, silu
from cai_reference.autograd.errors import AutogradError
from cai_reference.layers.errors import (
    BranchHiddenWidthMismatch,
    BranchInputWidthMismatch,
    DownInputWidthMismatch,
    GateFailed,
    LinearError,
    ProjectionFailed,
)
from cai_reference.layers.linear import linear


def swiglu(tape: Tape, x: Variable, gate: Variable, up: Variable, down: Variable) -> Variable:
    """Return (SiLU(x gate) · (x up)) down.

    Args:
        tape: what records.
        x: shape [..., inputs].
        gate: shape [inputs, inner].
        up: shape [inputs, inner].
        down: shape [inner, outputs].

    Returns:
        Shape [..., outputs].

    Raises:
        BranchInputWidthMismatch, BranchHiddenWidthMismatch, DownInputWidthMismatch: the weights do not fit each other.
        ProjectionFailed, GateFailed: an inner operation failed; its error is the cause.
    """
    if len(gate.shape) == len(up.shape) == len(down.shape) == 2:
        if gate.shape[0] != up.shape[0]:
            raise BranchInputWidthMismatch(gate.shape[0], up.shape[0])
        if gate.shape[1] != up.shape[1]:
            raise BranchHiddenWidthMismatch(gate.shape[1], up.shape[1])
        if gate.shape[1] != down.shape[0]:
            raise DownInputWidthMismatch(gate.shape[1], down.shape[0])
    activated = _gated(tape, _projected(tape, "gate", x, gate))
    try:
        inner = multiply(tape, activated, _projected(tape, "up", x, up))
    except AutogradError as error:
        raise GateFailed("elementwise gate", str(error)) from error
    return _projected(tape, "down", inner, down)


def _projected(tape: Tape, projection: str, x: Variable, weight: Variable) -> Variable:
    try:
        return linear(tape, x, weight)
    except (AutogradError, LinearError) as error:
        raise ProjectionFailed(projection, str(error)) from error


def _gated(tape: Tape, x: Variable) -> Variable:
    try:
        return silu(tape, x)
    except AutogradError as error:
        raise GateFailed("SiLU gate", str(error)) from error
