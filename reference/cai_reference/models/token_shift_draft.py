"""The sizes of a draft.

The token-shift draft: a model small enough to guess ahead of a larger one.

embedding → token shift → hidden → ReLU → logits. It sees the current token and the one before, nothing else (CAI
NEURAL API, phase 5 of the bake-off).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import relu
from cai_reference.errors import ModelError
from cai_reference.layers.matrices import Units, check_unique_names, embedding, xavier_uniform
from cai_reference.layers.projection import Dense
from cai_reference.layers.token_shift import TokenShift
from cai_reference.models.decoder import PADDING
from cai_reference.models.stack import heads_loss
from cai_reference.text.story_batches import StoryBatch


@dataclass(frozen=True)
class DraftConfiguration:
    """The sizes of a token-shift draft: embedding → shift → hidden → ReLU → logits.

    Raises:
        ModelError (size-too-small): a size is below 1.
    """

    vocabulary: int
    context: int
    width: int
    hidden: int

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "width", "hidden"):
            if getattr(self, name) < 1:
                raise ModelError("size-too-small", name=name, size=getattr(self, name))


class TokenShiftDraft:
    """A draft model with its parameters in registry order."""

    def __init__(
        self, configuration: DraftConfiguration, table: Parameter, shift: TokenShift, hidden: Dense, output: Dense
    ) -> None:
        self.configuration = configuration
        self.table = table
        self.shift = shift
        self.hidden = hidden
        self.output = output
        parts = (shift, hidden, output)
        self.parameters = (table, *(parameter for part in parts for parameter in part.parameters()))
        check_unique_names(parameter.name for parameter in self.parameters)

    @classmethod
    def initialize(cls, configuration: DraftConfiguration, generator: Units) -> TokenShiftDraft:
        """Draw all parameters from one stream, in registry order."""
        sizes = configuration
        return cls(
            configuration,
            xavier_uniform("embedding.weight", sizes.vocabulary, sizes.width, generator),
            TokenShift.initialize("shift", sizes.width),
            Dense.initialize("hidden", sizes.width, sizes.hidden, generator),
            Dense.initialize("output", sizes.hidden, sizes.vocabulary, generator),
        )

    def forward(self, tape: Tape, ids: Sequence[int], batch: int) -> list[Variable]:
        """Return the logits [batch, tokens, vocabulary], as the only item of a list.

        Raises:
            ModelError (empty-sequence, sequence-too-long): the rows have no tokens, or more than the context.
        """
        tokens = len(ids) // batch if batch else 0
        if tokens == 0:
            raise ModelError("empty-sequence")
        if tokens > self.configuration.context:
            raise ModelError("sequence-too-long", length=tokens, context=self.configuration.context)
        x = embedding(tape, self.table, ids, (batch, tokens), zero_id=PADDING)
        return [self.output(tape, relu(tape, self.hidden(tape, self.shift(tape, x))))]

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the mean cross-entropy over real targets, in nats.

        Raises:
            ModelError (no-targets): the batch is nothing but padding.
        """
        return heads_loss(tape, self.forward(tape, batch.flat_ids, batch.rows), batch)
