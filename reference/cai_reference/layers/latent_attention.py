"""Multi-head latent attention: keys and values are made from one small latent, positions from a shared rotary key.

From x come queries Q, a latent C, and from C the keys K = C W_K + b_K and values V = C W_V + b_V. Positions travel
apart: each head has its own rotated query part, all share one rotated key R. Head h attends with [Q_h, QR_h] against
[K_h, R], scaled by 1/√(w + r) (DeepSeek-AI, "DeepSeek-V2", 2024; biases and wiring as in CAI NEURAL API). A cache may
hold C and R only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import concatenate
from cai_reference.autograd.operations import add, reshape
from cai_reference.errors import LayerError
from cai_reference.layers import Observe, ignore
from cai_reference.layers.attention import attend, merge_heads, split_heads
from cai_reference.layers.matrices import Projection, Units
from cai_reference.layers.multi_head_attention import check_heads
from cai_reference.layers.projection import Dense, project
from cai_reference.layers.rope import Rope, rotate


@dataclass(frozen=True)
class LatentAttention:
    """The mixer.

    Attributes:
        query: width → width.
        latent: width → latent width.
        key: latent width → width.
        value: latent width → width.
        rope_query: width → heads · r.
        rope_key: width → r, shared by all heads.
        output: width → width.
        heads: how many heads there are.
        rope_base: the base of the rotary frequencies.
    """

    query: Projection
    latent: Dense
    key: Dense
    value: Dense
    rope_query: Dense
    rope_key: Dense
    output: Projection
    heads: int
    rope_base: float

    @classmethod
    def initialize(
        cls,
        name: str,
        width: int,
        heads: int,
        latent: int,
        rope: int,
        rope_base: float,
        channels_per_group: int | None,
        generator: Units,
    ) -> LatentAttention:
        """Draw query, latent, key, value, rope query, rope key, output. Only query and output are ever grouped.

        Raises:
            LayerError (heads-do-not-divide, odd-rope-width): the sizes do not fit.
        """
        check_heads(width, heads)
        if rope < 1 or rope % 2:
            raise LayerError("odd-rope-width", width=rope)
        return cls(
            project(f"{name}.query", width, width, channels_per_group, generator),
            Dense.initialize(f"{name}.latent", width, latent, generator),
            Dense.initialize(f"{name}.key", latent, width, generator),
            Dense.initialize(f"{name}.value", latent, width, generator),
            Dense.initialize(f"{name}.rope_query", width, heads * rope, generator),
            Dense.initialize(f"{name}.rope_key", width, rope, generator),
            project(f"{name}.output", width, width, channels_per_group, generator),
            heads,
            rope_base,
        )

    @property
    def rope_width(self) -> int:
        """The width r of the shared rotary key."""
        return self.rope_key.weight.shape[1]

    def parameters(self) -> Iterator[Parameter]:
        """Yield the seven projections, in the order of drawing."""
        parts = (self.query, self.latent, self.key, self.value, self.rope_query, self.rope_key, self.output)
        for part in parts:
            yield from part.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        query = split_heads(tape, self.query(tape, x), self.heads)
        latent = self.latent(tape, x)
        observe("latent", latent)
        key = split_heads(tape, self.key(tape, latent), self.heads)
        value = split_heads(tape, self.value(tape, latent), self.heads)
        rope_query = rotate(tape, split_heads(tape, self.rope_query(tape, x), self.heads), start, Rope(self.rope_base))
        # one key for all heads, turned before it is shared
        rope_key = rotate(tape, self.rope_key(tape, x), start, Rope(self.rope_base))
        observe("rope_key", rope_key)
        shared = self._shared(tape, rope_key)
        # content first, position behind: one score is the sum of both parts
        query, key = concatenate(tape, [query, rope_query]), concatenate(tape, [key, shared])
        observe("query", query)
        observe("key", key)
        mixed = merge_heads(tape, attend(tape, query, key, value, None, observe))
        observe("mixture", mixed)
        return self.output(tape, mixed)

    def _shared(self, tape: Tape, rope_key: Variable) -> Variable:
        """Repeat [batch, tokens, r] for every head: [batch, heads, tokens, r]."""
        batch, tokens, rope = rope_key.shape
        # a broadcast sum, so that the gradient of the shared key is summed over the heads
        zeros = tape.constant(np.zeros((batch, self.heads, tokens, rope)))
        return add(tape, zeros, reshape(tape, rope_key, (batch, 1, tokens, rope)))
