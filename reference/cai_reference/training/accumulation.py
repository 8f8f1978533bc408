"""Gradient accumulation: one update from several micro-batches, as if they had been one batch.

The mean over all real targets is Σ meanᵢ · (nᵢ / n), with nᵢ targets in micro-batch i and n in all; so the loss of each
micro-batch is multiplied by nᵢ / n before its backward pass. The mean of the micro-batches' means is another number
wherever they hold different numbers of targets: short stories would count as much as long ones.

Strict order: micro-batches one after the other; the gradient of each is made from the adjoint nᵢ / n of its mean, and
is added to what is stored, ((g + g₁) + g₂) + …; the loss is (+0.0 + mean₁·(n₁/n)) + mean₂·(n₂/n) + …. With one
micro-batch all bits are those of a plain backward pass. With several they differ from those of the whole batch by
rounding only, because that adds up in one sum what is here added in parts.

Of a model with several heads, each head's mean is weighted by the head's own targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Parameter, Tape, Variable, backward, gather, mean_nll, mean_of, reshape, scale
from cai_reference.errors import CaiReferenceError
from cai_reference.models import NeuralNgram
from cai_reference.models.errors import NoTargets
from cai_reference.text import Window
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.errors import NothingToAccumulate

MicroBatch = TypeVar("MicroBatch")


class StoryLogits(Protocol):
    """A model that gives logits for stories, one set for each head."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, in registry order."""
        ...

    def forward(self, tape: Tape, ids: Sequence[int], batch: int) -> list[Variable]:
        """Return the logits [batch, tokens, vocabulary] of each head."""
        ...


def accumulate_windows(model: NeuralNgram, micro_batches: Sequence[Sequence[Window]], arithmetic: Arithmetic) -> float:
    """Add the gradient of the mean over the windows of all micro-batches to what is stored, and return that mean.

    Raises:
        NothingToAccumulate: there are no micro-batches.
        ModelError, LayerError, AutogradError: a micro-batch is refused, or fails; the stored gradients are as before.
    """
    if not micro_batches:
        raise NothingToAccumulate
    total = sum(len(windows) for windows in micro_batches)

    def share(tape: Tape, windows: Sequence[Window]) -> Variable:
        return scale(tape, model.loss(tape, windows), float(len(windows)) / float(total))

    return _accumulate(model.parameters, micro_batches, share, arithmetic)


def accumulate_stories(model: StoryLogits, micro_batches: Sequence[StoryBatch], arithmetic: Arithmetic) -> float:
    """Add the gradient of the mean over the real targets of all micro-batches to what is stored, and return that mean.

    Raises:
        NothingToAccumulate: there are no micro-batches.
        NoTargets: a head has no real target in any of them.
        ModelError, LayerError, AutogradError: a micro-batch is refused, or fails; the stored gradients are as before.
    """
    if not micro_batches:
        raise NothingToAccumulate

    def share(tape: Tape, batch: StoryBatch) -> Variable | None:
        logits = model.forward(tape, batch.flat_ids, batch.rows)
        shares = [_share_of_head(tape, values, batch, head, micro_batches) for head, values in enumerate(logits)]
        present = [value for value in shares if value is not None]
        if not present:
            return None
        mean = present[0] if len(present) == 1 else mean_of(tape, present)
        return mean if len(present) == len(logits) else scale(tape, mean, float(len(present)) / float(len(logits)))

    return _accumulate(model.parameters, micro_batches, share, arithmetic)


def _share_of_head(
    tape: Tape, logits: Variable, batch: StoryBatch, head: int, micro_batches: Sequence[StoryBatch]
) -> Variable | None:
    """Return what one micro-batch gives to the mean of one head; None where the head has no target in it."""
    total = sum(len(other.targets(head)[1]) for other in micro_batches)
    if total == 0:
        raise NoTargets
    places, targets = batch.targets(head)
    if not targets:
        return None
    flat = reshape(tape, logits, (batch.rows * batch.width, logits.shape[-1]))
    mean = mean_nll(tape, gather(tape, flat, places, (len(places),)), targets)
    return scale(tape, mean, float(len(targets)) / float(total))


def _accumulate(
    parameters: Sequence[Parameter],
    micro_batches: Sequence[MicroBatch],
    share: Callable[[Tape, MicroBatch], Variable | None],
    arithmetic: Arithmetic,
) -> float:
    """Run every micro-batch forward and backward, or leave the stored gradients as they are."""
    before = [parameter.gradient for parameter in parameters]
    total = 0.0
    try:
        for micro_batch in micro_batches:
            loss = share(Tape(arithmetic), micro_batch)
            if loss is not None:
                backward(loss)
                total += float(loss.value)
    except CaiReferenceError:
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.gradient = gradient
        raise
    return total
