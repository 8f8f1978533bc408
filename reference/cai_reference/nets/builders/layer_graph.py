"""A growing list of layers: each call lays one down and returns its index.

The graph knows the tokens and the depth of every layer, so that a builder reads widths off it as the library does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cai_reference.nets.structure import NUMBERS, LayerSpec

EMBEDDING_SCALE: Final = 0.02
"""Half the range of initial embeddings; the structure line states it."""


class LayerGraph:
    """Layers under construction; `specs` is the result."""

    def __init__(self) -> None:
        self._specs: list[LayerSpec] = []
        self._shapes: list[tuple[int, int]] = []

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        """The layers so far."""
        return tuple(self._specs)

    def depth(self, layer: int) -> int:
        """Return the channels of a layer's output."""
        return self._shapes[layer][1]

    def input(self, context: int) -> int:
        """Lay down the input: one id a token, as a number."""
        return self._lay("TNNetInput", -1, (context, 1), (context, 1, 1))

    def embedding(self, source: int, vocabulary: int, width: int) -> int:
        """Lay down an embedding in which id 0 is the zero vector."""
        return self._lay("TNNetEmbedding", source, (self._tokens(source), width), (vocabulary, width), EMBEDDING_SCALE)

    def same_shape(self, kind: str, source: int) -> int:
        """Lay down a layer that has no settings and keeps the shape: a norm, an activation, a recurrence, a shift."""
        return self._lay(kind, source, self._shapes[source])

    def swiglu(self, source: int) -> int:
        """Lay down SwiGLU, which halves the depth."""
        return self._lay("TNNetSwiGLU", source, (self._tokens(source), self.depth(source) // 2))

    def pointwise(self, source: int, outputs: int, *, bias: bool = True, relu: bool = False) -> int:
        """Lay down a 1x1 convolution with one neuron an output channel."""
        kind = "TNNetPointwiseConvReLU" if relu else "TNNetPointwiseConvLinear"
        return self._lay(kind, source, (self._tokens(source), outputs), (outputs, 1, 0, 1, 0 if bias else 1))

    def grouped(self, source: int, outputs: int, groups: int) -> int:
        """Lay down a grouped 1x1 convolution."""
        shape = (self._tokens(source), outputs)
        return self._lay("TNNetGroupedPointwiseConvLinear", source, shape, (outputs, 1, 0, 1, 0, groups))

    def interleave(self, source: int, step: int) -> int:
        """Lay down the interleaving of channels."""
        return self._lay("TNNetInterleaveChannels", source, self._shapes[source], (step,))

    def softmax(self, source: int, *, skips_derivative: bool) -> int:
        """Lay down a softmax over the channels of each token."""
        return self._lay("TNNetPointwiseSoftMax", source, self._shapes[source], (int(skips_derivative),))

    def split(self, source: int, channels: Sequence[int]) -> int:
        """Lay down the choice of some channels, in order."""
        shape = (self._tokens(source), len(channels))
        return self._lay("TNNetSplitChannels", source, shape, listed=tuple(channels))

    def rotary(self, source: int, base: float) -> int:
        """Lay down the rotation of channel pairs by position; the base is stored in single precision."""
        return self._lay("TNNetRotaryEmbedding", source, self._shapes[source], number=base)

    def negate(self, source: int) -> int:
        """Lay down the multiplication by -1."""
        return self._lay("TNNetNegate", source, self._shapes[source], number=-1.0)

    def attention(self, source: int, width: int, window: int | None) -> int:
        """Lay down causal attention over a pack of queries, keys and values, `width` channels each."""
        shape = (self._tokens(source), width)
        return self._lay("TNNetScaledDotProductAttention", source, shape, (width, 1, window or 0))

    def add(self, sources: Sequence[int]) -> int:
        """Lay down an elementwise sum."""
        return self._lay("TNNetSum", self._newest, self._shapes[sources[0]], listed=tuple(sources))

    def concatenate(self, sources: Sequence[int]) -> int:
        """Lay down a concatenation of channels."""
        shape = (self._tokens(sources[0]), sum(self.depth(source) for source in sources))
        return self._lay("TNNetDeepConcat", self._newest, shape, listed=tuple(sources))

    def transpose(self, source: int) -> int:
        """Lay down the exchange of tokens and channels."""
        tokens, depth = self._shapes[source]
        return self._lay("TNNetTransposeXD", source, (depth, tokens))

    def dot_products(self, first: int, second: int, *, causal: bool) -> int:
        """Lay down all products of tokens: token b of `second` with token a of `first` gives channel a of token b.

        With `causal`, products with a > b are 0.
        """
        shape = (self._tokens(second), self._tokens(first))
        return self._lay("TNNetDotProducts", self._newest, shape, (first, second, int(causal)))

    @property
    def _newest(self) -> int:
        """What a layer with several inputs is said to follow: whatever was laid down last."""
        return len(self._specs) - 1

    def _tokens(self, layer: int) -> int:
        return self._shapes[layer][0]

    def _lay(
        self,
        kind: str,
        previous: int,
        shape: tuple[int, int],
        integers: Sequence[int] = (),
        number: float = 0.0,
        listed: tuple[int, ...] = (),
    ) -> int:
        rest = (0,) * (NUMBERS - len(integers))
        floats = (float(np.float32(number)), *(0.0,) * (NUMBERS - 1))
        self._specs.append(LayerSpec(kind, previous, (*integers, *rest), floats, listed))
        self._shapes.append(shape)
        return len(self._specs) - 1
