"""The decoders of the CAI NEURAL API: dynamic tanh, one of several mixers, a slab that gates itself, a hidden head.

::

    x = E[ids]                         id 0 embeds to the zero vector
    for each block: x = block(x)       sequential or parallel
    logits of head k = output_k(hidden(x))

There is no final normalisation (CAI NEURAL API, decode-features bake-off).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cai_reference.autograd import Parameter
from cai_reference.layers import xavier_uniform
from cai_reference.layers.attention import Attention
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.feed_forward import FeedForward
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.projection import Projection, project
from cai_reference.models.block import Block, Mixer
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    Wiring,
)
from cai_reference.models.head import FuturesHead
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64

PADDING = 0
"""The id that embeds to zero: BOS and padding."""

DecoderBlock: TypeAlias = Block[DynamicTanh, FeedForward]


class Decoder(DecoderStack):
    """A decoder with its parameters in registry order."""

    configuration: DecoderConfiguration
    blocks: tuple[DecoderBlock, ...]
    head: FuturesHead

    def __init__(
        self,
        configuration: DecoderConfiguration,
        table: Parameter,
        blocks: Sequence[DecoderBlock],
        hidden: Projection,
        outputs: Sequence[Projection],
    ) -> None:
        super().__init__(configuration, table, blocks, FuturesHead(hidden, tuple(outputs)), PADDING)

    @property
    def hidden(self) -> Projection:
        """The hidden map of the head."""
        return self.head.hidden

    @property
    def outputs(self) -> tuple[Projection, ...]:
        """The output maps of the head, one for each predicted token."""
        return self.head.outputs

    @classmethod
    def initialize(cls, configuration: DecoderConfiguration, generator: SplitMix64) -> Decoder:
        """Draw all parameters from one stream, in registry order.

        Raises:
            MixerError: widths, heads or windows do not fit.
        """
        sizes, groups = configuration, configuration.channels_per_group
        table = xavier_uniform("embedding.weight", sizes.vocabulary, sizes.width, generator)
        blocks = [_block(f"blocks.{index}", configuration, spec, generator) for index, spec in enumerate(sizes.mixers)]
        hidden = project("head.hidden", sizes.width, sizes.width, groups, generator)
        outputs = [
            project(f"head.outputs.{future}", sizes.width, sizes.vocabulary, groups, generator, mix=False)
            for future in range(sizes.futures)
        ]
        return cls(configuration, table, blocks, hidden, outputs)


def _block(name: str, sizes: DecoderConfiguration, spec: MixerSpec, generator: SplitMix64) -> DecoderBlock:
    """Make one block; the norms draw nothing, so drawing mixer and feed-forward layer in order is registry order."""
    groups = sizes.channels_per_group
    sequential = sizes.wiring is Wiring.SEQUENTIAL
    return Block(
        DynamicTanh.initialize(f"{name}.norm1", sizes.width),
        _mixer(f"{name}.mixer", sizes, spec, generator),
        DynamicTanh.initialize(f"{name}.norm2", sizes.width) if sequential else None,
        FeedForward.initialize(f"{name}.feed_forward", sizes.width, sizes.feed_forward, groups, generator),
    )


def _mixer(name: str, sizes: DecoderConfiguration, spec: MixerSpec, generator: SplitMix64) -> Mixer:
    groups = sizes.channels_per_group
    if isinstance(spec, AttentionSpec):
        return Attention.initialize(name, sizes.width, sizes.heads, spec.window, sizes.rope_base, groups, generator)
    if isinstance(spec, LatentSpec):
        return LatentAttention.initialize(
            name, sizes.width, sizes.heads, spec.latent, spec.rope, sizes.rope_base, groups, generator
        )
    return DiagonalSsm.initialize(name, sizes.width, groups, generator)
