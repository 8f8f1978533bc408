"""The first step of a training that goes wrong, and in which part: loss, gradient, clipping, moments, weights.

Every step begins where the engine's own last step ended, as far as it showed that, so that a mistake does not spread
into later steps. Within a step each part is computed from the engine's own earlier parts: the moments from its
gradients, the weights from its moments. The first part that differs is the one that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from cai_conformance.diagnosis.distances import Disagreement, magnitude_of, measured
from cai_conformance.diagnosis.fits import Fit, fitting_conventions
from cai_conformance.diagnosis.steps import (
    Normalizer,
    ReferenceSteps,
    ShownStep,
    Start,
    StepRows,
    TakenStep,
    Tensors,
    loss_normalizer,
    power_of,
    token_losses,
)
from cai_conformance.engine import OptimizerState, TrainingSettings
from cai_conformance.faults import GUESSES, Fault, Place, faults_at
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.models.stack import DecoderStack


class Part(StrEnum):
    """The parts of a step, in the order in which they are judged."""

    ORDER = "order of batches"
    LOSS = "loss"
    GRADIENT = "gradient"
    CLIPPING = "clipping"
    FIRST_MOMENT = "first moment"
    SECOND_MOMENT = "second moment"
    WEIGHTS = "weights"


PROPORTIONAL: Final = 1e-6
"""Up to which part of a gradient two of them count as proportional, at least; ten times the floor otherwise."""

AFTER_GRADIENTS: Final = (Part.CLIPPING, Part.FIRST_MOMENT, Part.SECOND_MOMENT, Part.WEIGHTS)
"""The parts that an optimiser makes of right gradients."""

LEAST_TOLERANCE: Final = 1e-9
"""Within which a known mistake fits, at least: candidates are tried in another arithmetic than the engine's."""


@dataclass(frozen=True)
class TrainingFinding:
    """The first part that is wrong.

    Attributes:
        step: its step, from 1.
        part: of the step.
        tensor: the first tensor that differs, in registry order; empty for the loss.
        differing: how many tensors differ.
        disagreement: in that tensor, or of the loss; None where shapes differ.
        detail: what else can be told.
        fits: the known mistakes that give what was shown up to here, best first.
        normalizers: ways to average the loss, the closest first; empty where the loss is right.
    """

    step: int
    part: Part
    tensor: str
    differing: int
    disagreement: Disagreement | None
    detail: str = ""
    fits: tuple[Fit, ...] = ()
    normalizers: tuple[Normalizer, ...] = ()

    def __str__(self) -> str:
        place = self.part.value if not self.tensor else f"{self.part.value} of {self.tensor}"
        more = f" and {self.differing - 1} more" if self.differing > 1 else ""
        values = f": {self.disagreement}" if self.disagreement is not None else ""
        return f"step {self.step}, {place}{more}{values}" + (f"; {self.detail}" if self.detail else "")


def training_findings(
    model: DecoderStack,
    settings: TrainingSettings,
    steps: Sequence[ShownStep],
    arithmetic: Arithmetic,
    floor: float,
    precision: str = "float64",
) -> TrainingFinding | None:
    """Find the first part of a training that is wrong; None where all that was shown agrees.

    Args:
        model: the reference's, with the weights that were given; it stays as it is.
        settings: of the optimiser, with the reference's names.
        steps: what the engine showed, step by step, by the reference's names and in its shapes.
        arithmetic: in which the reference computes.
        floor: up to which part of the largest value of all tensors a difference counts as none.
        precision: the format that the engine computes in.
    """
    start, since = Start.of(model), 0
    for number, shown in enumerate(steps, start=1):
        training = ReferenceSteps(model, settings, start, arithmetic)
        for earlier in steps[since : number - 1]:
            training.step(earlier.batch)
        present = training.loss(shown.batch)
        others = {place: training.loss(each.batch) for place, each in enumerate(steps, start=1) if place != number}
        taken = training.step(shown.batch)
        judge = _StepJudge(settings, start if since == number - 1 else None, number, floor, precision)
        finding = judge.finding(taken, shown, others)
        if finding is not None:
            rows = StepRows(settings, start, steps[since:number])
            return _explained(finding, model, rows, shown, floor, present)
        if shown.after is not None:
            start, since = Start(number, shown.after), number
    return None


@dataclass(frozen=True)
class _StepJudge:
    """Judges the parts of one step; `start` is None where the state before it was not shown."""

    settings: TrainingSettings
    start: Start | None
    number: int
    floor: float
    precision: str

    @property
    def _proportional(self) -> float:
        return max(PROPORTIONAL, 10.0 * self.floor)

    def finding(self, taken: TakenStep, shown: ShownStep, others: Mapping[int, float]) -> TrainingFinding | None:
        return (
            self._of_loss(taken, shown, others)
            or self._of_gradients(taken, shown)
            or (self._of_state(taken, shown, shown.after) if shown.after is not None else None)
        )

    def _of_loss(self, taken: TakenStep, shown: ShownStep, others: Mapping[int, float]) -> TrainingFinding | None:
        if shown.loss is None:
            return None
        allowed = self.floor * max(1.0, abs(taken.loss))
        apart = measured(np.array([taken.loss]), np.array([shown.loss]), allowed, self.precision)
        if apart.agrees:
            return None
        for place, loss in others.items():
            if abs(loss - shown.loss) <= allowed:
                detail = f"this is the loss of the batch of step {place}"
                return TrainingFinding(self.number, Part.ORDER, "", 1, apart, detail)
        return TrainingFinding(self.number, Part.LOSS, "", 1, apart)

    def _of_gradients(self, taken: TakenStep, shown: ShownStep) -> TrainingFinding | None:
        finding = self._compared(Part.GRADIENT, taken.gradients, shown.gradients)
        if finding is None:
            return None
        factors = _factors(taken.gradients, shown.gradients, self._proportional)
        detail = ""
        if factors and max(factors.values()) - min(factors.values()) <= self._proportional * abs(max(factors.values())):
            detail = f"all gradients are {next(iter(factors.values())):.6g} times what they should be"
        return TrainingFinding(
            finding.step, finding.part, finding.tensor, finding.differing, finding.disagreement, detail
        )

    def _of_state(self, taken: TakenStep, shown: ShownStep, after: OptimizerState) -> TrainingFinding | None:
        if self.start is None or not after.first_moments or not after.second_moments:
            return self._compared(Part.WEIGHTS, taken.after.weights, after.weights)
        before = self.start.state
        finding = self._compared(Part.FIRST_MOMENT, taken.after.first_moments, after.first_moments)
        if finding is not None:
            return self._clipping_or(finding, taken, before, after)
        beta1, beta2 = self.settings.beta1, self.settings.beta2
        seen = {
            name: _implied(value, before.first_moments.get(name), beta1) for name, value in after.first_moments.items()
        }
        second = {
            name: beta2 * _or_zeros(before.second_moments.get(name), value) + (1.0 - beta2) * (value * value)
            for name, value in seen.items()
        }
        finding = self._compared(Part.SECOND_MOMENT, second, after.second_moments)
        return finding or self._compared(Part.WEIGHTS, self._updated(before, after), after.weights)

    def _clipping_or(
        self, finding: TrainingFinding, taken: TakenStep, before: OptimizerState, after: OptimizerState
    ) -> TrainingFinding:
        """Say that gradients reach the first moment scaled, where that is all that is wrong with it."""
        implied = {
            name: _implied(value, before.first_moments.get(name), self.settings.beta1)
            for name, value in after.first_moments.items()
        }
        factors = _factors(taken.gradients, implied, self._proportional)
        if not factors:
            return finding
        low, high = min(factors.values()), max(factors.values())
        spread = f"{low:.6g}" if high - low <= self._proportional * abs(high) else f"between {low:.6g} and {high:.6g}"
        detail = f"gradients reach the moments multiplied by {spread}, where clipping asks for {taken.clipping:.6g}"
        return TrainingFinding(
            finding.step, Part.CLIPPING, finding.tensor, finding.differing, finding.disagreement, detail
        )

    def _updated(self, before: OptimizerState, after: OptimizerState) -> dict[str, Array]:
        """Return the weights that follow from the engine's own moments."""
        settings = self.settings
        corrections = [1.0 - power_of(beta, self.number) for beta in (settings.beta1, settings.beta2)]
        updated: dict[str, Array] = {}
        for name, weight in before.weights.items():
            if name not in after.first_moments or name not in after.second_moments:
                continue
            first, second = after.first_moments[name] / corrections[0], after.second_moments[name] / corrections[1]
            decay = settings.weight_decay if name in settings.decayed else 0.0
            rate = settings.learning_rate
            with np.errstate(invalid="ignore"):
                direction = first / (np.sqrt(second) + settings.epsilon)
            updated[name] = (weight - rate * direction) - (rate * decay) * weight
        return updated

    def _compared(self, part: Part, expected: Tensors, found: Tensors) -> TrainingFinding | None:
        names = [name for name in expected if name in found]
        allowed = self.floor * magnitude_of(*(expected[name] for name in names))
        first, apart, count = "", None, 0
        for name in names:
            one, other = expected[name], np.asarray(found[name], dtype=np.float64)
            gap = measured(one, other, allowed, self.precision) if one.shape == other.shape else None
            if gap is None or not gap.agrees:
                first, apart = (name, gap) if not first else (first, apart)
                count += 1
        return TrainingFinding(self.number, part, first, count, apart) if first else None


def _explained(
    finding: TrainingFinding, model: DecoderStack, rows: StepRows, shown: ShownStep, floor: float, present: float
) -> TrainingFinding:
    """Add which known mistake fits, and by what a wrong loss was divided."""
    tolerance = max(floor, LEAST_TOLERANCE)
    candidates = _candidates(finding.part, forward=len(rows.steps) == 1)
    of_optimizer = finding.part in AFTER_GRADIENTS
    # The loss alone costs least, and most candidates fail there.
    cheap = replace(rows, steps=(*rows.steps[:-1], ShownStep(shown.batch, shown.loss)))
    evidence = (cheap, rows) if finding.part is Part.LOSS else (rows,)
    fits = fitting_conventions(model, evidence, tolerance, candidates=candidates, together=of_optimizer)
    normalizers: tuple[Normalizer, ...] = ()
    training = ReferenceSteps(model, rows.settings, rows.start, FAST)
    of_one_head = len(rows.steps) == 1 and training.heads == 1
    if finding.part is Part.LOSS and shown.loss is not None and of_one_head:
        ways = loss_normalizer(*token_losses(training.model, shown.batch), shown.loss)
        normalizers = tuple(way for way in ways if way.difference <= tolerance * max(1.0, abs(present)))
    return TrainingFinding(
        finding.step,
        finding.part,
        finding.tensor,
        finding.differing,
        finding.disagreement,
        finding.detail,
        fits,
        normalizers,
    )


def _candidates(part: Part, *, forward: bool) -> tuple[Fault, ...]:
    """Return the mistakes that can be the first to show in a part; `forward` where the forward pass may be wrong."""
    if part is Part.ORDER:
        return ()
    training = [fault for fault in GUESSES if Place.TRAINING in fault.places]
    optimizer = [fault for fault in training if fault.family in ("adamw", "clip")]
    if part in AFTER_GRADIENTS:
        return tuple(optimizer)
    others = [fault for fault in training if fault not in optimizer]
    if part is Part.GRADIENT:
        return tuple(others)
    if not forward:
        # The loss of the first step was right.
        return tuple(training)
    return (*(fault for fault in others if fault.family == "loss"), *faults_at(Place.BATCH))


def _implied(moment: Array, before: Array | None, beta: float) -> Array:
    """Return the gradient that a first moment must have seen."""
    seen: Array = (moment - beta * _or_zeros(before, moment)) / (1.0 - beta)
    return seen


def _or_zeros(value: Array | None, like: Array) -> Array:
    return np.zeros(like.shape) if value is None else value


def _factors(expected: Tensors, found: Tensors, tolerance: float) -> dict[str, float]:
    """Return by what each tensor is multiplied; nothing where one is not proportional, or of another shape."""
    factors: dict[str, float] = {}
    largest = magnitude_of(*expected.values())
    for name, one in expected.items():
        if name not in found:
            continue
        other = np.asarray(found[name], dtype=np.float64)
        if one.shape != other.shape or not np.isfinite(other).all():
            return {}
        energy = float(np.add.reduce((one * one).ravel()))
        # What is nothing but rounding has no direction.
        if magnitude_of(one) <= tolerance * largest:
            continue
        factor = float(np.add.reduce((one * other).ravel())) / energy
        if magnitude_of(other - factor * one) > tolerance * abs(factor) * largest:
            return {}
        factors[name] = factor
    return factors
