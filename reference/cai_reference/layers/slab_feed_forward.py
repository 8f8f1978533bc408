"""The feed-forward layer of a decoder block: up to a slab of two halves, SwiGLU, and down.

Of the slab's two halves a and b, the **second** is the gate: a · (b · σ(b)) (CAI NEURAL API; other libraries gate
with the first half).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import channels
from cai_reference.autograd.operations import multiply, silu
from cai_reference.layers import Observe, ignore
from cai_reference.layers.matrices import Projection, Units
from cai_reference.layers.projection import project


@dataclass(frozen=True)
class FeedForward:
    """`up` maps width to 2 · inner, `down` maps inner to width."""

    up: Projection
    down: Projection

    @classmethod
    def initialize(
        cls, name: str, width: int, inner: int, channels_per_group: int | None, generator: Units
    ) -> FeedForward:
        """Draw up, then down."""
        up = project(f"{name}.up", width, 2 * inner, channels_per_group, generator)
        return cls(up, project(f"{name}.down", inner, width, channels_per_group, generator))

    def parameters(self) -> Iterator[Parameter]:
        """Yield up, then down."""
        yield from self.up.parameters()
        yield from self.down.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        """Map [..., width] to [..., width], each token by itself."""
        slab = self.up(tape, x)
        inner = slab.shape[-1] // 2
        # the second half is the gate; other libraries take the first
        gate = silu(tape, channels(tape, slab, inner, 2 * inner))
        gated = multiply(tape, channels(tape, slab, 0, inner), gate)
        observe("gated", gated)
        return self.down(tape, gated)
