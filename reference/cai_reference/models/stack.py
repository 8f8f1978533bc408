"""What every decoder is: an embedding, a stack of blocks around a residual stream, a head.

::

    x = E[ids]
    for each block:
        sequential   r = mixer(norm₁(x)) + x ;  x = feed_forward(norm₂(r)) + r
        parallel     n = norm(x) ;              x = (x + mixer(n)) + feed_forward(n)
    logits = head(x)

The wiring is here and nowhere else; what the parts are is said by `models.llama` and `models.decoder`. This is the
batch path: whole sequences at once, for training and for re-encoding. The streaming path, in
`cai_reference.decoding.session`, has a wiring of its own. Sessions, generation, speculation and training take any
stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.operations import add, gather, mean_of, reshape, rows
from cai_reference.autograd.probability import mean_nll
from cai_reference.errors import ModelError
from cai_reference.layers import HasParameters, Observe, ignore, within
from cai_reference.layers.matrices import Projection, check_unique_names, embedding


class Targets(Protocol):
    """Sequences to learn from, as `cai_reference.text.story_batches.StoryBatch` has them."""

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        ...

    @property
    def width(self) -> int:
        """How long the input rows are."""
        ...

    @property
    def flat_ids(self) -> list[int]:
        """The input ids [rows, width], row-major."""
        ...

    def targets(self, future: int = 0) -> tuple[list[int], list[int]]:
        """Return the flat positions [rows · width] that have a real target for a head, and these targets."""
        ...


Norm = Projection
"""What is applied in front of a layer, to each token by itself: [..., width] to [..., width]."""


class Mixer(HasParameters, Protocol):
    """What mixes tokens: attention of one kind or another, or a recurrence."""

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        ...


class TokenLayer(HasParameters, Protocol):
    """A feed-forward layer: what is done to each token by itself."""

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        """Map [..., width] to [..., width]."""
        ...


NormT = TypeVar("NormT", bound=Norm, covariant=True)
FeedForwardT = TypeVar("FeedForwardT", bound=TokenLayer, covariant=True)


@dataclass(frozen=True)
class Block(Generic[NormT, FeedForwardT]):
    """Mixer and feed-forward layer around a residual stream; a parallel block has no second norm."""

    norm1: NormT
    mixer: Mixer
    norm2: NormT | None
    feed_forward: FeedForwardT

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
            # both branches read the same norm, so the order of adding is a choice: (x + mixed) + fed
            output = add(tape, add(tape, x, mixed), fed)
        else:
            # mixed first: the order of operands is that of the backward sweep
            residual = add(tape, mixed, x)
            observe("residual", residual)
            fed = self.feed_forward(tape, self.norm2(tape, residual), within(observe, "feed_forward"))
            output = add(tape, fed, residual)
        observe("output", output)
        return output


class Head(HasParameters, Protocol):
    """What gives logits. A tied table is the embedding's parameter, not the head's."""

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], one for each predicted token."""
        ...


@dataclass(frozen=True)
class VocabularyHead:
    """A final norm, then one output map: `BiasFree`, or `TiedOutput` around the embedding table."""

    norm: Norm
    output: Projection

    def parameters(self) -> Iterator[Parameter]:
        """Yield norm, then output, which is empty where it is tied."""
        yield from self.norm.parameters()
        yield from self.output.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], the only item of a list."""
        normed = self.norm(tape, x)
        observe("final_norm", normed)
        logits = self.output(tape, normed)
        observe("logits.0", logits)
        return [logits]


def heads_loss(tape: Tape, logits: Sequence[Variable], batch: Targets) -> Variable:
    """Return the mean over heads of the mean cross-entropy over the head's real targets.

    Raises:
        ModelError (no-targets): a head has none.
    """
    losses: list[Variable] = []
    for future, values in enumerate(logits):
        places, targets = batch.targets(future)
        if not places:
            raise ModelError("no-targets")
        flat = reshape(tape, values, (batch.rows * batch.width, values.shape[-1]))
        # padding is left out before the mean, so that it does not count in the divisor
        losses.append(mean_nll(tape, gather(tape, flat, places, (len(places),)), targets))
    return losses[0] if len(losses) == 1 else mean_of(tape, losses)


class StackSizes(Protocol):
    """What is asked of the configuration of any stack."""

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        ...

    @property
    def context(self) -> int:
        """The longest sequence, prompt included."""
        ...


class DecoderStack:
    """Embedding table, blocks and head, with their parameters in registry order.

    Attributes:
        configuration: the sizes.
        table: shape [vocabulary, width].
        blocks: any number of them, also none.
        head: what gives logits.
        zero_id: an id that embeds to the zero vector and whose row is not trained; None where there is none.
        parameters: table, blocks, head.
    """

    def __init__(
        self,
        configuration: StackSizes,
        table: Parameter,
        blocks: Sequence[Block[Norm, TokenLayer]],
        head: Head,
        zero_id: int | None,
    ) -> None:
        self.configuration = configuration
        self.table = table
        self.blocks = tuple(blocks)
        self.head = head
        self.zero_id = zero_id
        # registry order: drawing, saving and summing of norms follow it
        parameters = [table]
        for block in self.blocks:
            parameters.extend(block.parameters())
        parameters.extend(head.parameters())
        self.parameters = tuple(parameters)
        check_unique_names(parameter.name for parameter in self.parameters)

    def forward(
        self,
        tape: Tape,
        ids: Sequence[int],
        batch: int,
        start: int = 0,
        observe: Observe = ignore,
        newest: int | None = None,
    ) -> list[Variable]:
        """Return the logits [batch, tokens, vocabulary] of each predicted token.

        Args:
            tape: what records.
            ids: batch · tokens ids, row-major; all rows are equally long.
            batch: how many rows.
            start: the position of the first token.
            observe: takes every stage, in order.
            newest: how many of the last tokens are given logits; None for all.

        Raises:
            ModelError (empty-sequence, sequence-too-long): the rows have no tokens, or more than the context.
            LayerError: an id is beyond the vocabulary.
        """
        tokens = len(ids) // batch if batch else 0
        if tokens == 0:
            raise ModelError("empty-sequence")
        if tokens > self.configuration.context:
            raise ModelError("sequence-too-long", length=tokens, context=self.configuration.context)
        x = embedding(tape, self.table, ids, (batch, tokens), zero_id=self.zero_id)
        observe("embedding", x)
        for index, block in enumerate(self.blocks):
            x = block(tape, x, start, within(observe, f"blocks.{index}"))
        return self.head(tape, x if newest is None else rows(tape, x, tokens - newest, tokens), observe)

    def loss(self, tape: Tape, batch: Targets) -> Variable:
        """Return the mean cross-entropy over real targets, in nats; of several heads, the mean of their means.

        Raises:
            ModelError (no-targets): the batch is nothing but padding.
        """
        return heads_loss(tape, self.forward(tape, batch.flat_ids, batch.rows), batch)
