"""The feed-forward layer of Llama models: three matrices without biases, (SiLU(x gate) · (x up)) down.

`gate` is the branch through SiLU (Shazeer, "GLU variants improve Transformer", 2020; course, chapter 31). The layer
with one slab, whose second half is the gate, is `feed_forward`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.operations import multiply, silu
from cai_reference.layers import Observe, ignore
from cai_reference.layers.matrices import BiasFree, Units


@dataclass(frozen=True)
class GatedFeedForward:
    """`gate` and `up` map width to inner, `down` maps inner to width."""

    gate: BiasFree
    up: BiasFree
    down: BiasFree

    @classmethod
    def initialize(cls, name: str, width: int, inner: int, generator: Units) -> GatedFeedForward:
        """Draw gate, up, down."""
        return cls(
            BiasFree.initialize(f"{name}.gate", width, inner, generator),
            BiasFree.initialize(f"{name}.up", width, inner, generator),
            BiasFree.initialize(f"{name}.down", inner, width, generator),
        )

    def parameters(self) -> Iterator[Parameter]:
        """Yield gate, up, down."""
        for part in (self.gate, self.up, self.down):
            yield from part.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        """Map [..., width] to [..., width], each token by itself."""
        # the gate passes SiLU, the other branch stays linear
        activated = silu(tape, self.gate(tape, x))
        gated = multiply(tape, activated, self.up(tape, x))
        observe("gated", gated)
        return self.down(tape, gated)
