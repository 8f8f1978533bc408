"""The diagonal state-space mixer: project in, run one linear recurrence a channel, project out.

h_t = (a·h_{t−1}) + (b·x_t), y_t = (c·h_t) + (e·x_t), with a = σ(a_raw) in (0, 1) (Gu and others, 2022; CAI NEURAL
API). The whole past of a channel is one number, so a cache does not grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import logistic
from cai_reference.autograd.scan import diagonal_scan
from cai_reference.layers import Observe, ignore
from cai_reference.layers.matrices import Projection, Units
from cai_reference.layers.projection import project


@dataclass(frozen=True)
class DiagonalSsm:
    """The mixer: `inner` and `output` map width to width; a_raw, b, c, e are vectors that start as 0, 1, 1, 1."""

    inner: Projection
    a_raw: Parameter
    b: Parameter
    c: Parameter
    e: Parameter
    output: Projection

    @classmethod
    def initialize(cls, name: str, width: int, channels_per_group: int | None, generator: Units) -> DiagonalSsm:
        """Draw inner, then output; the vectors draw nothing."""
        inner = project(f"{name}.inner", width, width, channels_per_group, generator)
        output = project(f"{name}.output", width, width, channels_per_group, generator)
        a_raw, b, c, e = (
            Parameter(f"{name}.{letter}", np.full(width, value))
            for letter, value in (("a_raw", 0.0), ("b", 1.0), ("c", 1.0), ("e", 1.0))
        )
        return cls(inner, a_raw, b, c, e, output)

    def parameters(self) -> Iterator[Parameter]:
        """Yield inner, a_raw, b, c, e, output."""
        yield from self.inner.parameters()
        yield from (self.a_raw, self.b, self.c, self.e)
        yield from self.output.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; the recurrence knows no positions, so `start` changes nothing."""
        inner = self.inner(tape, x)
        # in (0, 1), so that the state cannot grow without input
        decay = logistic(tape, self.a_raw)
        scanned = diagonal_scan(tape, inner, decay, self.b, self.c, self.e)
        observe("scanned", scanned)
        return self.output(tape, scanned)
