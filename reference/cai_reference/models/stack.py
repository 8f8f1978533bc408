"""What every decoder is: an embedding, a stack of blocks, a head.

::

    x = E[ids]
    for each block: x = block(x)
    logits = head(x)

This is the batch path: whole sequences at once, for training and for re-encoding. The streaming path is in
`cai_reference.decoding`. Sessions, generation, speculation and training take any stack; what it is built of is said by
`cai_reference.models.decoder` and `cai_reference.models.llama`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cai_reference.autograd import Parameter, Tape, Variable, rows
from cai_reference.layers import embedding
from cai_reference.layers.initialization import check_unique_names
from cai_reference.layers.observation import Observe, ignore, within
from cai_reference.models.block import Block, Norm, TokenLayer
from cai_reference.models.errors import EmptySequence, SequenceTooLong
from cai_reference.models.head import Head
from cai_reference.models.story_loss import heads_loss
from cai_reference.text.story_batches import StoryBatch


class Sizes(Protocol):
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
        configuration: Sizes,
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
            EmptySequence, SequenceTooLong: the rows have no tokens, or more than the context.
            EmbeddingError: an id is beyond the vocabulary.
        """
        tokens = len(ids) // batch if batch else 0
        if tokens == 0:
            raise EmptySequence
        if tokens > self.configuration.context:
            raise SequenceTooLong(tokens, self.configuration.context)
        x = embedding(tape, self.table, ids, (batch, tokens), zero_id=self.zero_id)
        observe("embedding", x)
        for index, block in enumerate(self.blocks):
            x = block(tape, x, start, within(observe, f"blocks.{index}"))
        return self.head(tape, x if newest is None else rows(tape, x, tokens - newest, tokens), observe)

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the mean cross-entropy over real targets, in nats; of several heads, the mean of their means.

        Raises:
            NoTargets: the batch is nothing but padding.
        """
        return heads_loss(tape, self.forward(tape, batch.flat_ids, batch.rows), batch)
