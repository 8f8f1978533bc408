"""The decoder: embedding, blocks, head.

::

    x = E[ids]                         id 0 embeds to the zero vector
    for each block:
        sequential   r = mixer(norm₁(x)) + x ;  x = feed_forward(norm₂(r)) + r
        parallel     n = norm(x) ;              x = (x + mixer(n)) + feed_forward(n)
    logits of head k = output_k(hidden(x))

There is no final normalisation (CAI NEURAL API, decode-features bake-off). This is the batch path: whole sequences at
once, for training and for re-encoding. The streaming path is in `cai_reference.decoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cai_reference.autograd import Parameter, Tape, Variable, add, gather, mean_nll, mean_of, reshape, rows
from cai_reference.layers import embedding, xavier_uniform
from cai_reference.layers.attention import Attention
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.feed_forward import FeedForward
from cai_reference.layers.initialization import check_unique_names
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.observation import Observe, ignore, within
from cai_reference.layers.projection import Projection, project
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    Wiring,
)
from cai_reference.models.errors import EmptySequence, NoTargets, SequenceTooLong
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch

PADDING = 0
"""The id that embeds to zero: BOS and padding."""


class Mixer(Protocol):
    """What mixes tokens: attention, latent attention, or a recurrence."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters, in registry order."""
        ...

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        ...


@dataclass(frozen=True)
class Block:
    """Mixer and feed-forward layer around a residual stream; a parallel block has no second norm."""

    norm1: DynamicTanh
    mixer: Mixer
    norm2: DynamicTanh | None
    feed_forward: FeedForward

    def parameters(self) -> Iterator[Parameter]:
        """Yield norm 1, mixer, norm 2, feed-forward."""
        yield from self.norm1.parameters()
        yield from self.mixer.parameters()
        if self.norm2 is not None:
            yield from self.norm2.parameters()
        yield from self.feed_forward.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int, observe: Observe) -> Variable:
        """Map [batch, tokens, width] to the same shape."""
        normed = self.norm1(tape, x)
        observe("norm1", normed)
        mixed = self.mixer(tape, normed, start, within(observe, "mixer"))
        observe("mixed", mixed)
        if self.norm2 is None:
            fed = self.feed_forward(tape, normed, within(observe, "feed_forward"))
            output = add(tape, add(tape, x, mixed), fed)
        else:
            residual = add(tape, mixed, x)
            observe("residual", residual)
            fed = self.feed_forward(tape, self.norm2(tape, residual), within(observe, "feed_forward"))
            output = add(tape, fed, residual)
        observe("output", output)
        return output


class Decoder:
    """A decoder with its parameters in registry order."""

    def __init__(
        self,
        configuration: DecoderConfiguration,
        table: Parameter,
        blocks: Sequence[Block],
        hidden: Projection,
        outputs: Sequence[Projection],
    ) -> None:
        self.configuration = configuration
        self.table = table
        self.blocks = tuple(blocks)
        self.hidden = hidden
        self.outputs = tuple(outputs)
        parameters = [table]
        for block in self.blocks:
            parameters.extend(block.parameters())
        for projection in (hidden, *self.outputs):
            parameters.extend(projection.parameters())
        self.parameters = tuple(parameters)
        check_unique_names(parameter.name for parameter in self.parameters)

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

    def forward(
        self,
        tape: Tape,
        ids: Sequence[int],
        batch: int,
        start: int = 0,
        observe: Observe = ignore,
        newest: int | None = None,
    ) -> list[Variable]:
        """Return the logits [batch, tokens, vocabulary] of each head.

        Args:
            tape: what records.
            ids: batch · tokens ids, row-major; all rows are equally long.
            batch: how many rows.
            start: the position of the first token.
            observe: takes every stage, in order.
            newest: how many of the last tokens are given logits; None for all.

        Raises:
            EmptySequence, SequenceTooLong: the rows have no tokens, or more than the context.
            EmbeddingError: an id is beyond the vocabulary.
        """
        tokens = len(ids) // batch if batch else 0
        if tokens == 0:
            raise EmptySequence
        if tokens > self.configuration.context:
            raise SequenceTooLong(tokens, self.configuration.context)
        x = embedding(tape, self.table, ids, (batch, tokens), zero_id=PADDING)
        observe("embedding", x)
        for index, block in enumerate(self.blocks):
            x = block(tape, x, start, within(observe, f"blocks.{index}"))
        hidden = self.hidden(tape, x if newest is None else rows(tape, x, tokens - newest, tokens))
        observe("head.hidden", hidden)
        logits = [output(tape, hidden) for output in self.outputs]
        for future, values in enumerate(logits):
            observe(f"logits.{future}", values)
        return logits

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the mean cross-entropy over real targets, in nats; of several heads, the mean of their means.

        Raises:
            NoTargets: the batch is nothing but padding.
        """
        return heads_loss(tape, self.forward(tape, batch.flat_ids, batch.rows), batch)


def heads_loss(tape: Tape, logits: Sequence[Variable], batch: StoryBatch) -> Variable:
    """Return the mean over heads of the mean cross-entropy over the head's real targets.

    Raises:
        NoTargets: a head has none.
    """
    losses: list[Variable] = []
    for future, values in enumerate(logits):
        places, targets = batch.targets(future)
        if not places:
            raise NoTargets
        flat = reshape(tape, values, (batch.rows * batch.width, values.shape[-1]))
        losses.append(mean_nll(tape, gather(tape, flat, places, (len(places),)), targets))
    return losses[0] if len(losses) == 1 else mean_of(tape, losses)


def _block(name: str, sizes: DecoderConfiguration, spec: MixerSpec, generator: SplitMix64) -> Block:
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
