"""Dynamic tanh: (γ · tanh(α·x)) + β, a normalisation without statistics.

γ and β are vectors, α is one number (Zhu, Chen, He, LeCun and Liu, "Transformers without normalization", 2025).
Nothing is summed over features or tokens, so a token alone gives what it gives in a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import tanh
from cai_reference.autograd.operations import add, multiply


@dataclass(frozen=True)
class DynamicTanh:
    """γ [width], β [width], α [1]; they start as 1, 0 and 1, and draw nothing."""

    gamma: Parameter
    beta: Parameter
    alpha: Parameter

    @classmethod
    def initialize(cls, name: str, width: int) -> DynamicTanh:
        """Return the identity scale and shift around tanh."""
        return cls(
            Parameter(f"{name}.gamma", np.ones(width)),
            Parameter(f"{name}.beta", np.zeros(width)),
            Parameter(f"{name}.alpha", np.ones(1)),
        )

    def parameters(self) -> Iterator[Parameter]:
        """Yield γ, β, α."""
        yield from (self.gamma, self.beta, self.alpha)

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., width] to [..., width]."""
        # α inside, γ and β outside the tanh
        return add(tape, multiply(tape, self.gamma, tanh(tape, multiply(tape, self.alpha, x))), self.beta)
