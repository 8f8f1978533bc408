"""The SwiGLU feed-forward layer: h = (SiLU(x Wg) · (x Wu)) Wd.

`gate` is the branch through SiLU, `up` the linear one, `down` the way back (Shazeer, "GLU variants improve
Transformer", 2020; course, chapter 20). No biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.operations import multiply, silu
from cai_reference.errors import AutogradError, LayerError
from cai_reference.layers.projection import LinearError, linear


class SwiGluError(LayerError):
    """The gated layer cannot be made or applied."""

    templates: ClassVar[Mapping[str, str]] = {
        # One of the three linear maps failed; the inner error is the cause.
        "projection-failed": "{projection} projection: {inner}",
        # The `SiLU gate` or the `elementwise gate` failed; the inner error is the cause.
        "gate-failed": "{operation}: {inner}",
        # Gate and up take different inputs.
        "branch-input-width-mismatch": "gate takes {gate} inputs, up takes {up}",
        # Gate and up have different outputs.
        "branch-hidden-width-mismatch": "gate has {gate} outputs, up has {up}",
        # Down does not take what gate and up make.
        "down-input-width-mismatch": "the hidden width is {hidden}, down takes {down} inputs",
    }


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
        SwiGluError (branch-input-width-mismatch, branch-hidden-width-mismatch, down-input-width-mismatch): the weights
            do not fit each other.
        SwiGluError (projection-failed, gate-failed): an inner operation failed; its error is the cause.
    """
    if len(gate.shape) == len(up.shape) == len(down.shape) == 2:
        if gate.shape[0] != up.shape[0]:
            raise SwiGluError("branch-input-width-mismatch", gate=gate.shape[0], up=up.shape[0])
        if gate.shape[1] != up.shape[1]:
            raise SwiGluError("branch-hidden-width-mismatch", gate=gate.shape[1], up=up.shape[1])
        if gate.shape[1] != down.shape[0]:
            raise SwiGluError("down-input-width-mismatch", hidden=gate.shape[1], down=down.shape[0])
    activated = _gated(tape, _projected(tape, "gate", x, gate))
    try:
        # the gate first: the order of operands is that of the backward sweep
        inner = multiply(tape, activated, _projected(tape, "up", x, up))
    except AutogradError as error:
        raise SwiGluError("gate-failed", operation="elementwise gate", inner=str(error)) from error
    return _projected(tape, "down", inner, down)


def _projected(tape: Tape, projection: str, x: Variable, weight: Variable) -> Variable:
    try:
        return linear(tape, x, weight)
    except (AutogradError, LinearError) as error:
        raise SwiGluError("projection-failed", projection=projection, inner=str(error)) from error


def _gated(tape: Tape, x: Variable) -> Variable:
    try:
        return silu(tape, x)
    except AutogradError as error:
        raise SwiGluError("gate-failed", operation="SiLU gate", inner=str(error)) from error
