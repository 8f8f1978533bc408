"""CAI decoders of PyTorch's own modules; their tensors are called in files as the modules are here."""

from __future__ import annotations

from torch import nn

from cai_conformance.torch_engine.diagonal_ssm import DiagonalSsm
from cai_conformance.torch_engine.feed_forward import SlabFeedForward
from cai_conformance.torch_engine.heads import FuturesHead
from cai_conformance.torch_engine.latent_attention import LatentAttention
from cai_conformance.torch_engine.mixing import Mixer
from cai_conformance.torch_engine.norms import DynamicTanh
from cai_conformance.torch_engine.projections import projection
from cai_conformance.torch_engine.rope import Rope
from cai_conformance.torch_engine.slab_attention import SlabAttention
from cai_conformance.torch_engine.stack import Block, Stack
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    Wiring,
)

ZERO_ID = 0
"""The id that embeds to zero."""


def cai_decoder(sizes: DecoderConfiguration) -> Stack:
    """Build a model whose weights are still to be filled in."""
    width, channels = sizes.width, sizes.channels_per_group
    hidden = projection(width, width, channels)
    outputs = [projection(width, sizes.vocabulary, channels, mix=False) for _ in range(sizes.futures)]
    blocks = [_block(sizes, spec) for spec in sizes.mixers]
    return Stack(nn.Embedding(sizes.vocabulary, width), blocks, FuturesHead(hidden, outputs), ZERO_ID)


def _block(sizes: DecoderConfiguration, spec: MixerSpec) -> Block:
    width, inner, channels = sizes.width, sizes.feed_forward, sizes.channels_per_group
    feed_forward = SlabFeedForward(projection(width, 2 * inner, channels), projection(inner, width, channels))
    norm2 = DynamicTanh(width) if sizes.wiring is Wiring.SEQUENTIAL else None
    return Block(DynamicTanh(width), _mixer(sizes, spec), norm2, feed_forward)


def _mixer(sizes: DecoderConfiguration, spec: MixerSpec) -> Mixer:
    width, heads, channels = sizes.width, sizes.heads, sizes.channels_per_group
    output, rope = projection(width, width, channels), Rope(sizes.rope_base, adjacent=True)
    if isinstance(spec, AttentionSpec):
        return SlabAttention(projection(width, 3 * width, channels), output, width, heads, spec.window, rope)
    query = projection(width, width, channels)
    if isinstance(spec, LatentSpec):
        return LatentAttention(query, output, width, heads, spec.latent, spec.rope, rope)
    return DiagonalSsm(query, output, width)
