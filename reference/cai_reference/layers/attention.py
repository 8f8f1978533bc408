"""Causal multi-head attention with rotary positions, over a slab of queries, keys and values.

One projection makes the slab of Q, K and V; head h owns features h·w … (h+1)·w − 1 of each. Scores are (q·k) ·
(1/√w); a window W lets a query see the last W keys, its own included (Vaswani and others, 2017; Beltagy, Peters and
Cohan, "Longformer", 2020; CAI NEURAL API for the slab).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cai_reference.autograd import (
    Parameter,
    Tape,
    Variable,
    causal_softmax,
    channels,
    matmul,
    reshape,
    scale,
    swap_axes,
)
from cai_reference.layers.errors import HeadsDoNotDivide, OddRopeWidth, WindowTooSmall
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.projection import Projection, project
from cai_reference.layers.rope import rotate
from cai_reference.splitmix import SplitMix64


@dataclass(frozen=True)
class Attention:
    """The mixer: `slab` maps width to 3 · width, `output` maps width to width.

    Raises:
        WindowTooSmall: the window is below 1.
    """

    slab: Projection
    output: Projection
    heads: int
    window: int | None
    rope_base: float

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise WindowTooSmall(self.window)

    @classmethod
    def initialize(
        cls,
        name: str,
        width: int,
        heads: int,
        window: int | None,
        rope_base: float,
        channels_per_group: int | None,
        generator: SplitMix64,
    ) -> Attention:
        """Draw slab, then output.

        Raises:
            HeadsDoNotDivide, OddRopeWidth, WindowTooSmall: the sizes do not fit.
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
        slab = self.slab(tape, x)
        query, key, value = (
            split_heads(tape, channels(tape, slab, part * width, (part + 1) * width), self.heads) for part in range(3)
        )
        query, key = (rotate(tape, part, start, self.rope_base) for part in (query, key))
        observe("query", query)
        observe("key", key)
        observe("value", value)
        mixed = merge_heads(tape, attend(tape, query, key, value, self.window, observe))
        observe("mixture", mixed)
        return self.output(tape, mixed)


def attend(
    tape: Tape, query: Variable, key: Variable, value: Variable, window: int | None, observe: Observe = ignore
) -> Variable:
    """Return softmax(q kᵀ / √w) v over whole sequences [batch, heads, tokens, ·], causal, within the window."""
    factor = 1.0 / math.sqrt(query.shape[-1])
    scores = scale(tape, matmul(tape, query, swap_axes(tape, key, 2, 3)), factor)
    weights = causal_softmax(tape, scores, window)
    observe("weights", weights)
    return matmul(tape, weights, value)


def split_heads(tape: Tape, x: Variable, heads: int) -> Variable:
    """Turn [batch, tokens, heads · w] into [batch, heads, tokens, w]."""
    batch, tokens, width = x.shape
    return swap_axes(tape, reshape(tape, x, (batch, tokens, heads, width // heads)), 1, 2)


def merge_heads(tape: Tape, x: Variable) -> Variable:
    """Turn [batch, heads, tokens, w] into [batch, tokens, heads · w]."""
    batch, heads, tokens, width = x.shape
    return reshape(tape, swap_axes(tape, x, 1, 2), (batch, tokens, heads * width))


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that does not split into heads of even width.

    Raises:
        HeadsDoNotDivide, OddRopeWidth: it does not divide, or heads are odd.
    """
    if heads < 1 or width % heads:
        raise HeadsDoNotDivide(width, heads)
    if (width // heads) % 2:
        raise OddRopeWidth(width // heads)
