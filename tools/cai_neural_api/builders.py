"""Builders: which layers a block, a decoder or a draft becomes, in the order in which the library creates them.

The order decides the indices of a structure line, the order of the weights, and which random number each weight gets,
so it is part of the file format (CAI NEURAL API, decode-features bake-off).

A growing list of layers: each call lays one down and returns its index.

The graph knows the tokens and the depth of every layer, so that a builder reads widths off it as the library does.

The end of a decoder: one head, or several that predict several tokens.

A single head ends in a softmax that passes the error straight through, which is cross-entropy. Several heads each end
in a softmax that keeps its derivative, and stand side by side in one concatenation; trained by the same rule, they
minimise the Brier score (CAI NEURAL API, AddMultiTokenPrediction).

Decoder blocks: mixer and feed-forward layer around a residual stream, one behind the other or side by side.

Sequential: r = mixer(norm(x)) + x, then feed-forward(norm(r)) + r, the branch first in each sum. Parallel: one norm n,
and x + mixer(n) + feed-forward(n) in one sum of three. Local and global blocks differ in the window of their mixer only
(CAI NEURAL API, AddTransformerEncoderBlock and AddParallelTransformerBlock with DyT as the norm).

Multi-head attention over a slab of queries, keys and values.

First every head gets its pack of the slab: channels [h·w, (h+1)·w) of Q, of K and of V, with w = width / heads. Then,
head by head, Q and K are split off and rotated, V is split off, and the three are packed again for attention. The heads
are concatenated (CAI NEURAL API, AddMultiHeadSelfAttention with rotary positions, without its output projection).

Multi-head latent attention as layers.

From the normed input come queries, a latent, from the latent keys and values, then rotary queries and one rotary key
that all heads share. Its negative added to it makes zeros, which fill up the values, so that a pack has three equal
parts: [Q_h, QR_h | K_h, KR | V_h, 0]. Behind attention the filled-up channels are cut off again. Only the query and
output projections are ever grouped (CAI NEURAL API, AddMultiHeadLatentAttention). With no rotary channels the layers
that make them vanish, and a pack is Q_h, K_h, V_h.

Projections as layers: one dense convolution, or the auto-grouped stack.

The stack takes the largest number of groups G that divides inputs and outputs and leaves `channels_per_group` inputs to
each: grouped convolution, and for G > 1 an interleaving of step outputs / G. Where there are at least as many inputs as
outputs, a second grouped convolution and the sum with the first follow; where there are fewer, the interleaving is the
end (CAI NEURAL API, AddAutoGroupedPointwiseConv).

A whole decoder as layers: input, embedding, blocks, hidden projection, heads.

The structure lines of all nine published phases were compared with those of the library, byte for byte. Combinations
that no phase has, such as grouped attention or several grouped heads, follow the same rules and were compared with
nothing.

The token-shift draft as layers: embedding, shift, hidden projection, ReLU, logits, softmax (CAI NEURAL API).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cai_neural_api.net.structure import NUMBERS, LayerSpec
from cai_reference.errors import LayerError
from cai_reference.layers.multi_head_attention import check_heads
from cai_reference.layers.projection import group_count
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec, Wiring
from cai_reference.models.token_shift_draft import DraftConfiguration

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


def build_heads(
    graph: LayerGraph, source: int, vocabulary: int, futures: int, channels_per_group: int | None = None
) -> int:
    """Lay down the output projections, which never mix their groups, and their softmaxes."""
    heads = [
        graph.softmax(project(graph, source, vocabulary, channels_per_group, mix=False), skips_derivative=futures == 1)
        for _ in range(futures)
    ]
    return heads[0] if futures == 1 else graph.concatenate(heads)


NORM = "TNNetDyT"


def build_block(graph: LayerGraph, source: int, sizes: DecoderConfiguration, spec: MixerSpec) -> int:
    """Lay down one block.

    Raises:
        LayerError (heads-do-not-divide, odd-rope-width, window-too-small): the sizes do not fit.
    """
    normed = graph.same_shape(NORM, source)
    mixed = _mix(graph, normed, sizes, spec)
    if sizes.wiring is Wiring.PARALLEL:
        return graph.add([source, mixed, _feed_forward(graph, normed, sizes)])
    residual = graph.add([mixed, source])
    return graph.add([_feed_forward(graph, graph.same_shape(NORM, residual), sizes), residual])


def _mix(graph: LayerGraph, source: int, sizes: DecoderConfiguration, spec: MixerSpec) -> int:
    groups = sizes.channels_per_group
    if isinstance(spec, AttentionSpec):
        check_heads(sizes.width, sizes.heads)
        if spec.window is not None and spec.window < 1:
            raise LayerError("window-too-small", window=spec.window)
        slab = project(graph, source, 3 * sizes.width, groups)
        mixed = attend_over_slab(graph, slab, sizes.heads, spec.window, sizes.rope_base)
        return project(graph, mixed, sizes.width, groups)
    if isinstance(spec, LatentSpec):
        check_heads(sizes.width, sizes.heads)
        if spec.rope < 0 or spec.rope % 2:
            raise LayerError("odd-rope-width", width=spec.rope)
        return attend_over_latent(graph, source, sizes.heads, spec.latent, spec.rope, sizes.rope_base, groups)
    inner = project(graph, source, sizes.width, groups)
    return project(graph, graph.same_shape("TNNetDiagonalSSM", inner), sizes.width, groups)


def _feed_forward(graph: LayerGraph, source: int, sizes: DecoderConfiguration) -> int:
    slab = project(graph, source, 2 * sizes.feed_forward, sizes.channels_per_group)
    return project(graph, graph.swiglu(slab), sizes.width, sizes.channels_per_group)


def attend_over_slab(graph: LayerGraph, slab: int, heads: int, window: int | None, rope_base: float) -> int:
    """Lay down causal attention; a window counts the current token, None sees everything before."""
    width = graph.depth(slab) // 3
    part = width // heads
    packs = [
        graph.split(slab, [offset + channel for offset in (0, width, 2 * width) for channel in channels_of(head, part)])
        for head in range(heads)
    ]
    outputs = []
    for pack in packs:
        query = graph.rotary(graph.split(pack, channels_of(0, part)), rope_base)
        key = graph.rotary(graph.split(pack, channels_of(1, part)), rope_base)
        value = graph.split(pack, channels_of(2, part))
        outputs.append(graph.attention(graph.concatenate([query, key, value]), part, window))
    return graph.concatenate(outputs)


def channels_of(head: int, width: int) -> range:
    """Return the channels that belong to a head."""
    return range(head * width, (head + 1) * width)


def attend_over_latent(
    graph: LayerGraph, source: int, heads: int, latent: int, rope: int, rope_base: float, channels_per_group: int | None
) -> int:
    """Lay down latent attention with its output projection; `rope` 0 means no positions."""
    width = graph.depth(source)
    part = width // heads
    query = project(graph, source, width, channels_per_group)
    compressed = graph.pointwise(source, latent)
    key = graph.pointwise(compressed, width)
    value = graph.pointwise(compressed, width)
    rope_query = rope_key = zeros = -1
    if rope:
        rope_query = graph.pointwise(source, heads * rope)
        rope_key = graph.rotary(graph.pointwise(source, rope), rope_base)
        zeros = graph.add([rope_key, graph.negate(rope_key)])
    outputs = []
    for head in range(heads):
        parts = [graph.split(whole, channels_of(head, part)) for whole in (query, key, value)]
        if rope:
            turned = graph.rotary(graph.split(rope_query, channels_of(head, rope)), rope_base)
            parts = [parts[0], turned, parts[1], rope_key, parts[2], zeros]
        attended = graph.attention(graph.concatenate(parts), part + rope, None)
        outputs.append(graph.split(attended, channels_of(0, part)) if rope else attended)
    return project(graph, graph.concatenate(outputs), width, channels_per_group)


def project(graph: LayerGraph, source: int, outputs: int, channels_per_group: int | None, *, mix: bool = True) -> int:
    """Lay down a dense convolution, or an auto-grouped stack where a number of channels per group is given.

    Without `mix` the groups do not talk: one grouped convolution and nothing behind it.
    """
    if channels_per_group is None:
        return graph.pointwise(source, outputs)
    inputs = graph.depth(source)
    groups = group_count(inputs, outputs, channels_per_group)
    first = graph.grouped(source, outputs, groups)
    if not mix or groups == 1:
        return first
    interleaved = graph.interleave(first, outputs // groups)
    if inputs < outputs:
        return interleaved
    return graph.add([graph.grouped(interleaved, outputs, groups), first])


def build_decoder(configuration: DecoderConfiguration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder. Latent attention may do without rotary channels here (`rope` 0).

    Raises:
        LayerError (heads-do-not-divide, odd-rope-width, window-too-small): the sizes do not fit.
    """
    sizes, graph = configuration, LayerGraph()
    x = graph.embedding(graph.input(sizes.context), sizes.vocabulary, sizes.width)
    for spec in sizes.mixers:
        x = build_block(graph, x, sizes, spec)
    hidden = project(graph, x, sizes.width, sizes.channels_per_group)
    build_heads(graph, hidden, sizes.vocabulary, sizes.futures, sizes.channels_per_group)
    return graph.specs


def build_draft(configuration: DraftConfiguration) -> tuple[LayerSpec, ...]:
    """Return the seven layers of a draft."""
    sizes, graph = configuration, LayerGraph()
    x = graph.embedding(graph.input(sizes.context), sizes.vocabulary, sizes.width)
    hidden = graph.pointwise(graph.same_shape("TNNetTokenShift", x), sizes.hidden)
    build_heads(graph, graph.same_shape("TNNetReLU", hidden), sizes.vocabulary, futures=1)
    return graph.specs
