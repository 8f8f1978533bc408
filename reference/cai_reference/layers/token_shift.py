"""Token shift: each token is blended with the one before it, channel by channel.

y_t = (μ·x_t) + ((1 − μ)·x_{t−1}), with x_{−1} = 0 and a learned μ that starts as ½ (Peng and others, "RWKV", 2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import previous
from cai_reference.autograd.operations import add, multiply, scale


@dataclass(frozen=True)
class TokenShift:
    """μ of shape [width]."""

    mix: Parameter

    @classmethod
    def initialize(cls, name: str, width: int) -> TokenShift:
        """Blend in equal parts; nothing is drawn."""
        return cls(Parameter(f"{name}.mix", np.full(width, 0.5)))

    def parameters(self) -> Iterator[Parameter]:
        """Yield μ."""
        yield self.mix

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Blend [batch, tokens, width]."""
        # 1 − μ
        rest = add(tape, tape.constant(np.ones(1)), scale(tape, self.mix, -1.0))
        return add(tape, multiply(tape, self.mix, x), multiply(tape, rest, previous(tape, x)))
