"""By what a loss was divided: the number that a backend reports, against every usual way to average.

Who accumulates over micro-batches, or pads, divides by something; two programs that do it differently report different
losses for the same model and the same tokens.

Training steps: what an engine showed of them, and what the reference makes of the same start.

Names and shapes are the reference's; whoever asks an engine in the words of a model folder translates first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cai_conformance.diagnosis.distances import absolute_gaps, magnitude_of
from cai_conformance.engine import OptimizerState, TrainingSettings
from cai_conformance.faults.fault import Place
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, GradientScale, Moments, ParameterGroups
from cai_reference.training.decoder_training import gradient_norm


@dataclass(frozen=True)
class Normalizer:
    """One way to average.

    Attributes:
        name: in words.
        value: the loss that it gives.
        difference: the absolute difference to what was found.
    """

    name: str
    value: float
    difference: float

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.9g}, off by {self.difference:.2g}"


def loss_normalizer(
    nll: Array, mask: npt.NDArray[np.bool_], found: float, parts: Sequence[Sequence[int]] = ()
) -> tuple[Normalizer, ...]:
    """Return all ways to average, the closest one first.

    Args:
        nll: negative log-likelihoods in nats, [rows, tokens]; of padding, whatever was computed there, or NaN.
        mask: which of them are real targets; at least one is.
        found: the loss that was reported.
        parts: the rows of each micro-batch; none for no micro-batches.
    """
    values = _averages(np.where(mask, nll, 0.0), nll, mask, parts)
    found_ones = [Normalizer(name, value, abs(value - found)) for name, value in values if math.isfinite(value)]
    return tuple(sorted(found_ones, key=lambda each: each.difference))


def token_losses(
    model: DecoderStack, batch: StoryBatch, head: int = 0, arithmetic: Arithmetic = FAST
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return what the reference has for a batch: negative log-likelihoods [rows, width], padding as id 0; the mask."""
    logits = model.forward(Tape(arithmetic, recording=False), batch.flat_ids, batch.rows)[head].value
    flat = logits.reshape(-1, logits.shape[-1])
    places, ids = batch.targets(head)
    targets = np.zeros(len(flat), dtype=np.int64)
    targets[places] = ids
    mask = np.zeros(len(flat), dtype=np.bool_)
    mask[places] = True
    best = np.max(flat, axis=1)
    normalizer = best + arithmetic.log(arithmetic.sum(arithmetic.exp(flat - best[:, None]), axis=1))
    shape = (batch.rows, batch.width)
    return (normalizer - flat[np.arange(len(flat)), targets]).reshape(shape), mask.reshape(shape)


def _averages(
    real: Array, nll: Array, mask: npt.NDArray[np.bool_], parts: Sequence[Sequence[int]]
) -> Iterator[tuple[str, float]]:
    counts, sums = np.count_nonzero(mask, axis=1), np.add.reduce(real, axis=1)
    total, count, rows = float(np.add.reduce(sums)), int(np.add.reduce(counts)), len(mask)
    yield "mean over real targets", total / count
    yield "padding in the denominator", total / mask.size
    yield "padding scored as targets", float(np.mean(nll))
    yield (
        "mean of the rows' means",
        _mean([float(part) / int(held) for part, held in zip(sums, counts, strict=True) if held]),
    )
    yield "sum over real targets", total
    yield "sum over real targets, divided by rows", total / rows
    if parts:
        held = [(sum(float(sums[row]) for row in part), sum(int(counts[row]) for row in part)) for part in parts]
        means = [part / number for part, number in held if number]
        yield "mean of the micro-batches' means", _mean(means)
        yield "sum of the micro-batches' means", sum(means)
    probabilities = np.exp(real[mask])
    yield "logarithm of the mean of the tokens' perplexities", math.log(float(np.mean(probabilities)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


Tensors = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class ShownStep:
    """What an engine showed of one step; what it did not show is left out.

    Attributes:
        batch: what was learned from.
        loss: before the step, in nats.
        gradients: before clipping, on the weights before the step.
        after: weights and moments after the step.
    """

    batch: StoryBatch
    loss: float | None = None
    gradients: Tensors = field(default_factory=dict)
    after: OptimizerState | None = None

    @property
    def only_loss(self) -> float | None:
        """The loss, where nothing else was shown."""
        return None if self.gradients or self.after is not None else self.loss


@dataclass(frozen=True, eq=False)
class Start:
    """Where a step begins: how many were taken before, and what they left.

    Attributes:
        steps: the number of steps before.
        state: weights and moments; no moments before the first step.
    """

    steps: int
    state: OptimizerState

    @classmethod
    def of(cls, model: DecoderStack) -> Start:
        """Begin with the weights of a model."""
        return cls(0, OptimizerState({each.name: each.value for each in model.parameters}, {}, {}))


@dataclass(frozen=True, eq=False)
class TakenStep:
    """What the reference had in a step: the loss, its gradients, the factor of clipping, and the state after it."""

    loss: float
    gradients: Tensors
    clipping: float
    after: OptimizerState


class ReferenceSteps:
    """The reference in training, from any start; the model that it is given stays as it is."""

    def __init__(self, model: DecoderStack, settings: TrainingSettings, start: Start, arithmetic: Arithmetic) -> None:
        self._model = deepcopy(model)
        self._settings = settings
        self._arithmetic = arithmetic
        decayed = tuple(settings.decayed)
        rest = tuple(each.name for each in self._model.parameters if each.name not in decayed)
        self._optimizer = AdamW(
            AdamWConfiguration(
                settings.learning_rate, settings.beta1, settings.beta2, settings.epsilon, settings.weight_decay
            ),
            ParameterGroups(decayed, rest),
        )
        moments = {
            name: Moments(np.asarray(first), np.asarray(start.state.second_moments[name]))
            for name, first in start.state.first_moments.items()
        }
        self._optimizer.state = AdamWState(
            start.steps, power_of(settings.beta1, start.steps), power_of(settings.beta2, start.steps), moments
        )
        for parameter in self._model.parameters:
            if parameter.name in start.state.weights:
                parameter.assign(np.asarray(start.state.weights[parameter.name]).reshape(parameter.shape))

    @property
    def model(self) -> DecoderStack:
        """The model in training."""
        return self._model

    @property
    def heads(self) -> int:
        """How many tokens the model predicts at once."""
        return len(self._model.forward(Tape(self._arithmetic, recording=False), [0], 1))

    def loss(self, batch: StoryBatch) -> float:
        """Return the loss of a batch on the present weights."""
        return float(self._model.loss(Tape(self._arithmetic, recording=False), batch).value)

    def step(self, batch: StoryBatch) -> TakenStep:
        """Take one step."""
        parameters, limit = self._model.parameters, self._settings.clip
        loss = self._model.loss(Tape(self._arithmetic), batch)
        backward(loss)
        gradients = {each.name: each.gradient for each in parameters}
        norm = gradient_norm(parameters, self._arithmetic)
        factor = limit / norm if limit is not None and norm > limit else None
        self._optimizer.step(parameters, None if factor is None else GradientScale(factor))
        for parameter in parameters:
            parameter.zero_gradient()
        moments = {each.name: self._optimizer.moments(each) for each in parameters}
        after = OptimizerState(
            {each.name: each.value for each in parameters},
            {name: each.first for name, each in moments.items()},
            {name: each.second for name, each in moments.items()},
        )
        return TakenStep(float(loss.value), gradients, 1.0 if factor is None else factor, after)


@dataclass(frozen=True, eq=False)
class StepRows:
    """Evidence of training: what was shown of some steps that follow one another.

    Attributes:
        settings: of the optimiser.
        start: where the first of them begins.
        steps: what was shown, at least one.
    """

    settings: TrainingSettings
    start: Start
    steps: Sequence[ShownStep]

    @property
    def places(self) -> frozenset[Place]:
        """Training, and the batch path that it runs through."""
        return frozenset({Place.TRAINING, Place.BATCH})

    def residuals(self, model: DecoderStack, arithmetic: Arithmetic) -> tuple[float, ...]:
        """Take the steps; the largest difference of each part counts in proportion to the part's largest value."""
        training = ReferenceSteps(model, self.settings, self.start, arithmetic)
        *earlier, last = self.steps
        gaps = [gap for shown in earlier for gap in step_gaps(training.step(shown.batch), shown)]
        if last.only_loss is not None:
            return (*gaps, loss_gap(training.loss(last.batch), last.only_loss))
        return (*gaps, *step_gaps(training.step(last.batch), last))


def step_gaps(taken: TakenStep, shown: ShownStep) -> list[float]:
    """Return how far each part of a step is from what was shown, in proportion to the part's largest value."""
    gaps: list[float] = []
    if shown.loss is not None:
        gaps.append(loss_gap(taken.loss, shown.loss))
    pairs: list[tuple[Tensors, Tensors]] = [(taken.gradients, shown.gradients)]
    if shown.after is not None:
        pairs.append((taken.after.first_moments, shown.after.first_moments))
        pairs.append((taken.after.second_moments, shown.after.second_moments))
        pairs.append((taken.after.weights, shown.after.weights))
    gaps += [part_gap(expected, found) for expected, found in pairs if found]
    return gaps


def loss_gap(expected: float, found: float) -> float:
    """Return how far a loss is off, in proportion to it where it is above 1; infinite where it is no number."""
    gap = abs(expected - found) / max(1.0, abs(expected))
    return gap if gap == gap else float("inf")


def part_gap(expected: Tensors, found: Tensors) -> float:
    """Return the largest difference of the tensors that both have, in proportion to the largest value of all."""
    names = [name for name in expected if name in found]
    if any(np.shape(found[name]) != np.shape(expected[name]) for name in names):
        return float("inf")
    gaps = [float(np.max(absolute_gaps(expected[name], np.asarray(found[name])))) for name in names]
    largest = max(gaps, default=0.0)
    return largest / (magnitude_of(*(expected[name] for name in names)) or 1.0)


def power_of(beta: float, steps: int) -> float:
    """Return a running product, as the optimiser makes it."""
    power = 1.0
    for _ in range(steps):
        power *= beta
    return power
