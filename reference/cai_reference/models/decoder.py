"""The decoders of the CAI NEURAL API: dynamic tanh, one of several mixers, a slab that gates itself, a hidden head.

::

    x = E[ids]                         id 0 embeds to the zero vector
    for each block: x = block(x)       sequential or parallel
    logits of head k = output_k(hidden(x))

There is no final normalisation. The family is data: which mixers, how they are wired, dense or grouped, one head or
several; nine published phases are nine values of one configuration (CAI NEURAL API, decode-features bake-off).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.errors import ModelError
from cai_reference.layers import Observe, ignore
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.matrices import Projection, Units, xavier_uniform
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.projection import project
from cai_reference.layers.slab_feed_forward import FeedForward
from cai_reference.models.stack import Block, DecoderStack, Mixer


@dataclass(frozen=True)
class AttentionSpec:
    """Causal multi-head attention; `window` counts the current token, None sees everything."""

    window: int | None = None


@dataclass(frozen=True)
class LatentSpec:
    """Multi-head latent attention: the width of the latent, and that of the shared rotary key."""

    latent: int
    rope: int


@dataclass(frozen=True)
class SsmSpec:
    """A diagonal state-space recurrence."""


MixerSpec: TypeAlias = AttentionSpec | LatentSpec | SsmSpec


class Wiring(StrEnum):
    """How a block adds mixer and feed-forward layer to its input.

    Sequential: r = mixer(norm₁(x)) + x, then feed_forward(norm₂(r)) + r. Parallel: (x + mixer(n)) + feed_forward(n)
    with one shared n = norm(x).
    """

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


@dataclass(frozen=True)
class DecoderConfiguration:
    """The sizes of a decoder.

    Attributes:
        vocabulary: how many ids there are; id 0 embeds to zero.
        context: the longest sequence, prompt included.
        width: the model width d.
        heads: attention heads, each of width d / heads, which has to be even.
        feed_forward: the inner width of the feed-forward layers.
        mixers: one a block, in order.
        wiring: of all blocks.
        channels_per_group: the least inputs of a group where projections are grouped; None for dense ones.
        futures: how many tokens are predicted at once; head 0 predicts the next one.
        rope_base: the base of the rotary frequencies.

    Raises:
        ModelError (empty-decoder, size-too-small): there are no blocks, or a size is below 1.
    """

    vocabulary: int
    context: int
    width: int
    heads: int
    feed_forward: int
    mixers: tuple[MixerSpec, ...]
    wiring: Wiring = Wiring.SEQUENTIAL
    channels_per_group: int | None = None
    futures: int = 1
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        if not self.mixers:
            raise ModelError("empty-decoder")
        for name in ("vocabulary", "context", "width", "heads", "feed_forward", "futures", "channels_per_group"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ModelError("size-too-small", name=name, size=size)


@dataclass(frozen=True)
class FuturesHead:
    """One hidden map, then one output map for each predicted token; head 0 predicts the next one."""

    hidden: Projection
    outputs: tuple[Projection, ...]

    def parameters(self) -> Iterator[Parameter]:
        """Yield hidden, then the outputs."""
        for projection in (self.hidden, *self.outputs):
            yield from projection.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], one for each output."""
        hidden = self.hidden(tape, x)
        observe("head.hidden", hidden)
        logits = [output(tape, hidden) for output in self.outputs]
        for future, values in enumerate(logits):
            observe(f"logits.{future}", values)
        return logits


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
    def initialize(cls, configuration: DecoderConfiguration, generator: Units) -> Decoder:
        """Draw all parameters from one stream, in registry order.

        Raises:
            LayerError: widths, heads or windows do not fit.
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


def _block(name: str, sizes: DecoderConfiguration, spec: MixerSpec, generator: Units) -> DecoderBlock:
    """Make one block; the norms draw nothing, so drawing mixer and feed-forward layer in order is registry order."""
    groups = sizes.channels_per_group
    sequential = sizes.wiring is Wiring.SEQUENTIAL
    return Block(
        DynamicTanh.initialize(f"{name}.norm1", sizes.width),
        _mixer(f"{name}.mixer", sizes, spec, generator),
        # a parallel block has one norm for both branches
        DynamicTanh.initialize(f"{name}.norm2", sizes.width) if sequential else None,
        FeedForward.initialize(f"{name}.feed_forward", sizes.width, sizes.feed_forward, groups, generator),
    )


def _mixer(name: str, sizes: DecoderConfiguration, spec: MixerSpec, generator: Units) -> Mixer:
    groups = sizes.channels_per_group
    if isinstance(spec, AttentionSpec):
        return Attention.initialize(name, sizes.width, sizes.heads, spec.window, sizes.rope_base, groups, generator)
    if isinstance(spec, LatentSpec):
        return LatentAttention.initialize(
            name, sizes.width, sizes.heads, spec.latent, spec.rope, sizes.rope_base, groups, generator
        )
    return DiagonalSsm.initialize(name, sizes.width, groups, generator)
