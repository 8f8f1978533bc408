"""The training loop: forward, backward, AdamW, zero gradients; evaluate at chosen steps.

A value is the one after the step that it names; step 0 is before any update (course, chapter 23). Batches are taken
from the plan in order, and from its start again where the steps outnumber them.

Evaluation: the mean loss over all windows of an epoch, without a graph.

Each batch's mean counts with its true number of rows: Σ meanᵢ·rowsᵢ / Σ rowsᵢ, ascending. The mean of batch means would
overweight the last, narrower batch (course, chapter 23).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.text.batches import Batch, Epoch
from cai_reference.training.adamw import AdamW
from cai_reference.training.errors import TrainingError


def evaluate(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
    """Return the mean negative log-likelihood, in nats, over the windows of `plan`. The model is not changed.

    Raises:
        TrainingError (no-evaluation-rows): the plan is empty.
    """
    tape = Tape(arithmetic, recording=False)
    total, rows = 0.0, 0
    for batch in plan:
        mean = float(model.loss(tape, [epoch.window(slot) for slot in batch]).value)
        # weighted by rows, because the last batch may be narrower
        total += mean * float(len(batch))
        rows += len(batch)
    if rows == 0:
        raise TrainingError("no-evaluation-rows", partition=epoch.partition)
    return total / float(rows)


@dataclass(frozen=True)
class Evaluation:
    """Mean losses in nats over all training and all validation windows."""

    train: float
    validation: float


@dataclass(frozen=True)
class TrainingStep:
    """What is known after one step.

    Attributes:
        step: 0 before any update.
        parameters: the values after the step, in registry order.
        moments: the first moments after the step, in registry order, then the second ones.
        batch_loss: the loss of the step's batch before its update; None at step 0.
        gradients: the gradients that the update used, in registry order; empty at step 0.
        evaluation: the losses after the step, at the steps chosen for it.
    """

    step: int
    parameters: tuple[Array, ...]
    moments: tuple[Array, ...]
    batch_loss: float | None
    gradients: tuple[Array, ...]
    evaluation: Evaluation | None


@dataclass(frozen=True)
class TrainingRun:
    """What is trained on what, and when it is evaluated.

    Attributes:
        train: the epoch that is trained on.
        validation: the epoch that is only evaluated.
        plan: the training batches, in order of use.
        train_evaluation: the training epoch's batches for evaluation.
        validation_evaluation: the validation epoch's batches for evaluation.
        steps: how many updates are made.
        evaluate_at: the steps after which losses are computed.
    """

    train: Epoch
    validation: Epoch
    plan: Sequence[Batch]
    train_evaluation: Sequence[Batch]
    validation_evaluation: Sequence[Batch]
    steps: int
    evaluate_at: frozenset[int]

    def run(self, model: NeuralNgram, optimizer: AdamW, arithmetic: Arithmetic) -> Iterator[TrainingStep]:
        """Train the model in place and yield every step, step 0 first.

        Raises:
            TrainingError (no-training-batches): the plan is empty.
            TrainingError (no-evaluation-rows): an evaluation plan is empty.
            AutogradError, LayerError, AdamWError: a number left the range of binary64; the step is not taken.
        """
        if not self.plan:
            raise TrainingError("no-training-batches")
        yield self._after(0, model, optimizer, None, (), arithmetic)
        for step in range(1, self.steps + 1):
            # steps count from 1, batches from 0; the plan starts anew when it ends
            batch = self.plan[(step - 1) % len(self.plan)]
            loss = model.loss(Tape(arithmetic), [self.train.window(slot) for slot in batch])
            backward(loss)
            gradients = tuple(parameter.gradient for parameter in model.parameters)
            optimizer.step(model.parameters)
            for parameter in model.parameters:
                parameter.zero_gradient()
            yield self._after(step, model, optimizer, float(loss.value), gradients, arithmetic)

    def _after(
        self,
        step: int,
        model: NeuralNgram,
        optimizer: AdamW,
        batch_loss: float | None,
        gradients: tuple[Array, ...],
        arithmetic: Arithmetic,
    ) -> TrainingStep:
        evaluation = None
        if step in self.evaluate_at:
            evaluation = Evaluation(
                evaluate(model, self.train, self.train_evaluation, arithmetic),
                evaluate(model, self.validation, self.validation_evaluation, arithmetic),
            )
        values = tuple(parameter.value for parameter in model.parameters)
        moments = [optimizer.moments(parameter) for parameter in model.parameters]
        both = tuple(moment.first for moment in moments) + tuple(moment.second for moment in moments)
        return TrainingStep(step, values, both, batch_loss, gradients, evaluation)
