"""Causal multi-head attention with rotary positions, over a slab of queries, keys and values.

One projection makes the slab of Q, K and V; head h owns features h·w … (h+1)·w − 1 of each (Vaswani and others, 2017;
CAI NEURAL API for the slab).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import channels
from cai_reference.errors import LayerError
from cai_reference.layers import Observe, ignore
from cai_reference.layers.attention import attend, merge_heads, split_heads
from cai_reference.layers.matrices import Projection, Units
from cai_reference.layers.projection import project
from cai_reference.layers.rope import Rope, rotate


@dataclass(frozen=True)
class Attention:
    """The mixer: `slab` maps width to 3 · width, `output` maps width to width.

    Raises:
        LayerError (window-too-small): the window is below 1.
    """

    slab: Projection
    output: Projection
    heads: int
    window: int | None
    rope_base: float

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise LayerError("window-too-small", window=self.window)

    @classmethod
    def initialize(
        cls,
        name: str,
        width: int,
        heads: int,
        window: int | None,
        rope_base: float,
        channels_per_group: int | None,
        generator: Units,
    ) -> Attention:
        """Draw slab, then output.

        Raises:
            LayerError (heads-do-not-divide, odd-rope-width, window-too-small): the sizes do not fit.
        """
        check_heads(width, heads)
        slab = project(f"{name}.slab", width, 3 * width, channels_per_group, generator)
        output = project(f"{name}.output", width, width, channels_per_group, generator)
        return cls(slab, output, heads, window, rope_base)

    def parameters(self) -> Iterator[Parameter]:
        """Yield slab, then output."""
        yield from self.slab.parameters()
        yield from self.output.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        width = x.shape[-1]
        # Q, K and V side by side, each of the whole width
        slab = self.slab(tape, x)
        query, key, value = (
            split_heads(tape, channels(tape, slab, part * width, (part + 1) * width), self.heads) for part in range(3)
        )
        # only queries and keys are turned: a position must not reach the values
        query, key = (rotate(tape, part, start, Rope(self.rope_base)) for part in (query, key))
        observe("query", query)
        observe("key", key)
        observe("value", value)
        mixed = merge_heads(tape, attend(tape, query, key, value, self.window, observe))
        observe("mixture", mixed)
        return self.output(tape, mixed)


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that does not split into heads of even width.

    Raises:
        LayerError (heads-do-not-divide, odd-rope-width): it does not divide, or heads are odd.
    """
    if heads < 1 or width % heads:
        raise LayerError("heads-do-not-divide", width=width, heads=heads)
    if (width // heads) % 2:
        raise LayerError("odd-rope-width", width=width // heads)
