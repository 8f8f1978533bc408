"""Training with selection by validation loss: the loop of chapter 33 of the course.

Every update: forward, backward, clip, AdamW at the scheduled rate, zero gradients. Batches are taken from the plan in
order, and from its start again where the updates outnumber them. At chosen steps, the first of them 0 and the last one
after the last update, losses over the training and the validation windows are computed without a graph. The model with
the smallest validation loss is selected, the earliest of equals, and its optimiser with it. Nothing else is looked at:
the test partition has no way in, and the training loss decides nothing.

A run works on copies. The model and the optimiser that it is given stay as they are, whatever happens.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.text.batches import Batch, Slot
from cai_reference.training.adamw import AdamW
from cai_reference.training.clipping import Clip, check_maximum_norm, clip_to
from cai_reference.training.decoder_training import PlannedEpoch, StoryModel, evaluate_stories, window_batch
from cai_reference.training.errors import CandidateError
from cai_reference.training.model_kinds import ParameterSnapshot, assign_all, copy_of, copy_of_optimizer
from cai_reference.training.schedules import SteppedRate

Selectable = TypeVar("Selectable", Decoder, Llama)

ROLES: Final = (("update", "train"), ("train evaluation", "train"), ("validation selection", "validation"))
"""What an epoch is for, and the partition that it must belong to."""


@dataclass(frozen=True)
class Update:
    """One update: its batch, its rate, the loss before it, and what was done to its gradients."""

    step: int
    batch: Batch
    learning_rate: float
    loss: float
    clip: Clip


@dataclass(frozen=True)
class LossCheckpoint:
    """Mean losses in nats after a step, over all windows of two partitions."""

    step: int
    train: float
    validation: float


@dataclass(frozen=True)
class SelectedRun(Generic[Selectable]):
    """What a run leaves.

    Attributes:
        updates: one an update, in order.
        checkpoints: one a checkpoint step, in order.
        selected: the state with the smallest validation loss, the earliest of equals.
        final: the state after the last update.
        selected_model: a model with the selected values.
        selected_optimizer: an optimiser with the selected state.
    """

    updates: tuple[Update, ...]
    checkpoints: tuple[LossCheckpoint, ...]
    selected: ParameterSnapshot
    final: ParameterSnapshot
    selected_model: Selectable
    selected_optimizer: AdamW

    @property
    def selected_checkpoint(self) -> LossCheckpoint:
        """The losses of the selected step."""
        (found,) = (checkpoint for checkpoint in self.checkpoints if checkpoint.step == self.selected.step)
        return found


@dataclass(frozen=True)
class SelectionPlan:
    """What is trained on what, at which rates, and when losses are computed.

    Attributes:
        updates: the windows that are trained on, in the order of their batches.
        train_evaluation: the windows of the training loss.
        validation: the windows of the loss that selects.
        rates: a rate for each update.
        checkpoints: the steps at which losses are computed.
        maximum_norm: gradients are clipped to this norm.

    Raises:
        TrainingError (invalid-maximum-norm), SelectionError (no-checkpoint-steps, first-checkpoint-not-zero): looked at
            in this order;
        SelectionError (checkpoint-beyond-updates, checkpoint-steps-not-increasing): step by step;
        SelectionError (last-checkpoint-not-final): at the end.
    """

    updates: PlannedEpoch
    train_evaluation: PlannedEpoch
    validation: PlannedEpoch
    rates: SteppedRate
    checkpoints: tuple[int, ...]
    maximum_norm: float

    def __post_init__(self) -> None:
        check_maximum_norm(self.maximum_norm)
        if not self.checkpoints:
            raise CandidateError("no-checkpoint-steps")
        if self.checkpoints[0] != 0:
            raise CandidateError("first-checkpoint-not-zero", actual=self.checkpoints[0])
        last = self.rates.steps
        for previous, step in itertools.pairwise((-1, *self.checkpoints)):
            if step > last:
                raise CandidateError("checkpoint-beyond-updates", step=step, last=last)
            if step <= previous:
                raise CandidateError("checkpoint-steps-not-increasing", previous=previous, following=step)
        if self.checkpoints[-1] != last:
            raise CandidateError("last-checkpoint-not-final", expected=last, actual=self.checkpoints[-1])

    def run(self, model: Selectable, optimizer: AdamW, arithmetic: Arithmetic) -> SelectedRun[Selectable]:
        """Train a copy of the model and return what was selected.

        Raises:
            SelectionError (optimizer-not-fresh): the optimiser has made steps.
            SelectionError (wrong-partition, no-windows, window-length-differs, window-exceeds-context,
                window-token-out-of-range): looked at in
                this order, epoch by epoch, before any forward pass.
            `non-finite-evaluation`, AutogradError, LayerError, TrainingError, AdamWError: a number left the range of
            binary64.
        """
        if optimizer.state.step != 0:
            raise CandidateError("optimizer-not-fresh", step=optimizer.state.step)
        self._check_epochs(model.configuration.context, model.configuration.vocabulary)
        trained, stepped = copy_of(model), copy_of_optimizer(optimizer)
        updates: list[Update] = []
        checkpoints = [self._measure(0, trained, arithmetic)]
        selected, smallest = ParameterSnapshot.of(0, trained.parameters, stepped), checkpoints[0].validation
        for step in range(1, self.rates.steps + 1):
            updates.append(self._update(step, trained, stepped, arithmetic))
            if step not in self.checkpoints:
                continue
            checkpoints.append(self._measure(step, trained, arithmetic))
            if checkpoints[-1].validation < smallest:
                selected, smallest = ParameterSnapshot.of(step, trained.parameters, stepped), checkpoints[-1].validation
        final = ParameterSnapshot.of(self.rates.steps, trained.parameters, stepped)
        assign_all(trained.parameters, selected.values)
        stepped.state = selected.optimizer
        return SelectedRun(tuple(updates), tuple(checkpoints), selected, final, trained, stepped)

    def _update(self, step: int, model: StoryModel, optimizer: AdamW, arithmetic: Arithmetic) -> Update:
        batch = self.updates.plan[(step - 1) % len(self.updates.plan)]
        loss = model.loss(Tape(arithmetic), window_batch(self.updates.epoch, batch))
        backward(loss)
        clip = clip_to(model.parameters, self.maximum_norm)
        rate = self.rates.rate(step, arithmetic)
        optimizer.step_at(rate, model.parameters, clip.transform)
        for parameter in model.parameters:
            parameter.zero_gradient()
        return Update(step, batch, rate, float(loss.value), clip)

    def _measure(self, step: int, model: StoryModel, arithmetic: Arithmetic) -> LossCheckpoint:
        train = evaluate_windows(model, self.train_evaluation, arithmetic)
        return LossCheckpoint(step, train, evaluate_windows(model, self.validation, arithmetic))

    def _check_epochs(self, context: int, vocabulary: int) -> None:
        expected = self.updates.epoch.windowing.context
        epochs = (self.updates, self.train_evaluation, self.validation)
        for (role, partition), planned in zip(ROLES, epochs, strict=True):
            epoch = planned.epoch
            if epoch.partition != partition:
                raise CandidateError("wrong-partition", role=role, expected=partition, actual=epoch.partition)
            if not any(planned.plan):
                raise CandidateError("no-windows", role=role)
            if epoch.windowing.context != expected:
                raise CandidateError(
                    "window-length-differs", role=role, expected=expected, actual=epoch.windowing.context
                )
            if expected > context:
                raise CandidateError("window-exceeds-context", role=role, tokens=expected, context=context)
            for document, index, token in _tokens(planned):
                if not 0 <= token < vocabulary:
                    raise CandidateError(
                        "window-token-out-of-range",
                        role=role,
                        document=document,
                        index=index,
                        token=token,
                        size=vocabulary,
                    )


def evaluate_windows(model: StoryModel, planned: PlannedEpoch, arithmetic: Arithmetic) -> float:
    """Return the mean loss over all targets of all windows, in nats; nothing of the model is changed.

    Each batch's mean counts with its number of targets, ascending from +0.0.

    Raises:
        TrainingError (no-evaluation-rows): there are no windows.
        SelectionError (non-finite-evaluation): the sum left the range of binary64.
    """
    loss = evaluate_stories(model, planned.batches, arithmetic, planned.epoch.partition)
    if not math.isfinite(loss):
        raise CandidateError("non-finite-evaluation", partition=planned.epoch.partition, value=loss)
    return loss


def _tokens(planned: PlannedEpoch) -> Iterator[tuple[str, int, int]]:
    """Yield document, index and id of every token of every window, in the order of the plan."""
    epoch = planned.epoch
    slots: Sequence[Slot] = [slot for batch in planned.plan for slot in batch]
    for slot in slots:
        document = epoch.documents[slot.document]
        for index in range(slot.start, slot.start + epoch.windowing.context + 1):
            yield document.identifier, index, document.tokens[index]
