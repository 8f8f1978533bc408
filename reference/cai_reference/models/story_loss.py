"""The loss over stories: mean cross-entropy over real targets, padding left out."""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.autograd import Tape, Variable, gather, mean_nll, mean_of, reshape
from cai_reference.models.errors import NoTargets
from cai_reference.text.story_batches import StoryBatch


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
