"""Training a decoder on stories: forward, backward, clip, AdamW, zero gradients; evaluate at chosen steps.

The same loop as for the n-gram, over batches of stories; a value is the one after the step that it names.

An epoch with the order in which its windows are seen, as decoders are trained on it (course, chapter 33).

Every window of a document is one row of a batch, and every one of its targets is predicted. A batch is handed to the
model as stories that are all of one length, so that nothing is padded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.text.batches import Batch, Epoch, Slot
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, GradientScale
from cai_reference.training.errors import TrainingError


class StoryModel(Protocol):
    """A model that is trained on stories."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, in registry order."""
        ...

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the mean loss over the real targets of a batch, in nats."""
        ...


@dataclass(frozen=True)
class DecoderStep:
    """What is known after one step; losses are None where they were not computed. Units are nats."""

    step: int
    batch_loss: float | None
    gradient_norm: float | None
    train: float | None
    validation: float | None


@dataclass(frozen=True)
class DecoderTraining:
    """What is trained on what, and when it is evaluated.

    Attributes:
        batches: one a step, in order.
        train_evaluation: batches for the training loss.
        validation_evaluation: batches for the validation loss.
        evaluate_at: the steps after which losses are computed.
        clip: the largest norm of all gradients together; None for no limit.
    """

    batches: Sequence[StoryBatch]
    train_evaluation: Sequence[StoryBatch]
    validation_evaluation: Sequence[StoryBatch]
    evaluate_at: frozenset[int]
    clip: float | None

    def run(self, model: StoryModel, optimizer: AdamW, arithmetic: Arithmetic) -> Iterator[DecoderStep]:
        """Train the model in place and yield every step, step 0 first.

        Raises:
            TrainingError (no-training-batches, no-evaluation-rows): there is nothing to train on, or to evaluate.
            AutogradError, AdamWError: a number left the range of binary64; the step is not taken.
        """
        if not self.batches:
            raise TrainingError("no-training-batches")
        yield self._after(0, model, None, None, arithmetic)
        for step, batch in enumerate(self.batches, start=1):
            loss = model.loss(Tape(arithmetic), batch)
            backward(loss)
            norm = gradient_norm(model.parameters, arithmetic)
            # compared with the norm itself: at the limit nothing is clipped
            clipped = self.clip is not None and norm > self.clip
            optimizer.step(model.parameters, GradientScale((self.clip or 0.0) / norm) if clipped else None)
            for parameter in model.parameters:
                parameter.zero_gradient()
            yield self._after(step, model, float(loss.value), norm, arithmetic)

    def _after(
        self, step: int, model: StoryModel, loss: float | None, norm: float | None, arithmetic: Arithmetic
    ) -> DecoderStep:
        if step not in self.evaluate_at:
            return DecoderStep(step, loss, norm, None, None)
        train = evaluate_stories(model, self.train_evaluation, arithmetic, "train")
        validation = evaluate_stories(model, self.validation_evaluation, arithmetic, "validation")
        return DecoderStep(step, loss, norm, train, validation)


def gradient_norm(parameters: Sequence[Parameter], arithmetic: Arithmetic) -> float:
    """Return the root of the sum of squares of all gradients: ascending in each parameter, then over the registry."""
    total = 0.0
    for parameter in parameters:
        # An infinite norm makes the optimiser refuse the step.
        with np.errstate(over="ignore"):
            squares = parameter.gradient * parameter.gradient
        total += float(arithmetic.sum(squares))
    return math.sqrt(total)


def evaluate_stories(model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str) -> float:
    """Return the mean loss over real targets: each batch's mean counts with its number of targets of the first head.

    Raises:
        TrainingError (no-evaluation-rows): there are no batches.
    """
    tape = Tape(arithmetic, recording=False)
    total, targets = 0.0, 0
    for batch in batches:
        # a batch's mean times its number of targets: its sum
        total += float(model.loss(tape, batch).value) * float(batch.target_count)
        targets += batch.target_count
    if targets == 0:
        raise TrainingError("no-evaluation-rows", partition=partition)
    return total / float(targets)


@dataclass(frozen=True)
class PlannedEpoch:
    """The windows of one partition, cut into batches.

    Attributes:
        epoch: documents and how they are cut.
        plan: the batches, in order.
    """

    epoch: Epoch
    plan: tuple[Batch, ...]

    @property
    def batches(self) -> list[StoryBatch]:
        """Every batch of the plan as the model takes it."""
        return [window_batch(self.epoch, batch) for batch in self.plan]


def window_batch(epoch: Epoch, batch: Sequence[Slot]) -> StoryBatch:
    """Return windows as stories whose every token but the first is a target.

    The window with inputs (3, 4) and targets (4, 0) becomes the story (3, 4, 0) of width 2.
    """
    windows = [epoch.window(slot) for slot in batch]
    return StoryBatch(tuple((*window.inputs, window.targets[-1]) for window in windows), epoch.windowing.context)
