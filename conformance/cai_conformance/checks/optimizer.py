"""The judges of an engine that trains: loss, gradients, and three steps of the optimiser, on given weights.

The first part of the first step that rounding does not explain is where to look. What rounding does is measured:
batches with their rows in another order, the model with its channels in another order, and, where the engine has one,
its own run in a finer format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import training
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.checks.check import Judge, check
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.probe.driven import UNTRAINED, driven
from cai_conformance.checks.rows import EXACT_ARITHMETIC
from cai_conformance.checks.tolerance.policy import FACTOR, PolicyKind
from cai_conformance.checks.tolerance.training import (
    FIRST_MOMENT,
    GRADIENT,
    LENGTHS,
    LOSS,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
    TrainingProbe,
    engine_parts,
    part_floors,
    reference_parts,
    rounding_units,
)
from cai_conformance.checks.witness import Met, Witness
from cai_conformance.engine import TrainingEngine
from cai_conformance.trace.format import format_bits
from cai_conformance.verdicts import Difference, Level, Problem
from cai_reference.arithmetic.bits import ulp_distance

TENSORS: Final = Witness("tensor", "tensors")
REPEATED: Final = Witness("repeated id", "repeated ids")
PADDED: Final = Witness("padded place", "padded places")
CLIPPED: Final = Witness("clipped step", "clipped steps").of("1")

STEPS: Final = tuple(str(step + 1) for step in range(len(LENGTHS)))


@dataclass(frozen=True)
class TrainingComparison:
    """The parts of reference and engine, and the floor of each part; no floors where bits are compared."""

    right: tuple[TrainingPart, ...]
    found: tuple[TrainingPart, ...]
    probe: TrainingProbe
    floors: tuple[float, ...]
    factor: float
    precision: str

    def first_difference(self, step: int, kinds: frozenset[str]) -> tuple[Difference, str] | None:
        """Return the first tensor of a step that rounding does not explain, and a sentence about it."""
        for place, part in enumerate(self.right):
            if part.step == step and part.kind in kinds:
                found = self._of_part(place)
                if found is not None:
                    return found
        return None

    def _of_part(self, place: int) -> tuple[Difference, str] | None:
        right, found = self.right[place], self.found[place].tensors
        units = rounding_units(right, self.precision)
        for name, value in right.tensors.items():
            allowed = self.factor * self.floors[place] * units[name] if self.floors else 0.0
            distances = np.abs(value - found[name])
            if not bool(np.all(distances <= allowed)):
                # A difference that is no number is the largest of all.
                index = int(np.argmax(np.where(np.isfinite(distances), distances, np.inf)))
                difference = tensor_difference(right, name, index, float(found[name].flat[index]))
                off = float(distances.flat[index])
                return difference, f"{difference}; off by {off:.3g}, rounding explains {allowed:.2g}"
        return None


def record_of(part: TrainingPart, name: str) -> str:
    """Return what a tensor of a part is called in messages."""
    return f"step {part.step}, {part.kind}" + ("" if part.kind == LOSS else f" of {name}")


def tensor_difference(part: TrainingPart, name: str, index: int, found: float) -> Difference:
    """Return that a number of a part, row by row, is another one; a loss has no index."""
    expected = float(part.tensors[name].flat[index])
    finite = bool(np.isfinite(found)) and bool(np.isfinite(expected))
    return Difference(
        Problem.VALUE if finite else Problem.NAN,
        record_of(part, name),
        "",
        None if part.kind == LOSS else index,
        f"{format_bits(expected)} ({expected:.9g})",
        f"{format_bits(found)} ({found:.9g})",
        ulp_distance(expected, found) if finite else None,
    )


@check(
    "loss.given",
    Level.T1,
    "the loss of a ragged batch on given weights is right",
    "Another normaliser, padding that counts, or targets that are shifted show here.",
    requires=("trace.convention",),
    of_edges=True,
    witnesses=(TENSORS, PADDED),
    catches="loss.heads-summed loss.mean-of-means loss.pads-counted loss.pads-scored loss.sum loss.unshifted",
)
def judge_loss(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the loss of a ragged batch."""
    return _judged(evidence, lambda comparison: (_finding(comparison, 1, frozenset({LOSS}), ""),))


@check(
    "grad.given",
    Level.T1,
    "the gradients of a ragged batch on given weights are right",
    "Of every tensor, before clipping; ids repeat, so that sums into the embedding show.",
    requires=("loss.given",),
    of_edges=True,
    witnesses=(TENSORS, REPEATED, PADDED),
    catches=(
        "gradient.gain-never gradient.gain-twice gradient.last-occurrence gradient.last-sequence "
        "gradient.norm-without-mean gradient.one-of-group gradient.tied-once loading.head-untied"
    ),
)
def judge_gradients(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the gradients of a ragged batch with repeated ids."""
    return _judged(evidence, lambda comparison: (_finding(comparison, 1, frozenset({GRADIENT}), ""),))


@check(
    "opt.given",
    Level.T2,
    "three steps from given weights give the right moments and weights",
    "Clipping is active, epsilon and decay are large. The first part that differs is named: loss, gradient, "
    "moments, weights.",
    cases=STEPS,
    requires=("grad.given",),
    of_edges=True,
    witnesses=(TENSORS, REPEATED, PADDED, CLIPPED),
    catches=(
        "adamw.betas-exchanged adamw.coupled-decay adamw.decay-after-update adamw.decays-everything "
        "adamw.eps-before-correction adamw.eps-inside-root adamw.no-bias-correction adamw.no-decay clip.* "
        "gradient.never-zeroed training.nothing-learned"
    ),
)
def judge_steps(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare moments and weights after each of three steps, and the losses and gradients before them."""
    kinds = frozenset({LOSS, GRADIENT, FIRST_MOMENT, SECOND_MOMENT, WEIGHTS})
    own = kinds - {LOSS, GRADIENT}
    return _judged(
        evidence,
        lambda comparison: tuple(
            _finding(comparison, step, own if step == 1 else kinds, str(step)) for step in range(1, len(STEPS) + 1)
        ),
    )


def _judged(evidence: Evidence, say: Callable[[TrainingComparison], tuple[Finding, ...]]) -> tuple[Finding, ...]:
    comparison = compared(evidence)
    if comparison is None:
        judge: Judge = driven(lambda _evidence, _opened: (Finding.skipped(UNTRAINED),))
        return judge(evidence)
    return say(comparison)


def compared(evidence: Evidence) -> TrainingComparison | None:
    """Return the parts of reference and engine; None where there is no engine that trains.

    Raises:
        EngineError: the engine failed.
    """
    opened = evidence.opened
    engine = None if opened is None else training(opened.engine)
    if opened is None or engine is None:
        return None
    return evidence.remembered("training", lambda: _compared(evidence, opened, engine))


def _compared(evidence: Evidence, opened: OpenedModel, engine: TrainingEngine) -> TrainingComparison:
    probe, policy = TrainingProbe.of(opened.given), evidence.question.policy
    precision = opened.description.precision.coarsest
    right, found = reference_parts(opened, probe), engine_parts(opened, engine, probe)
    if policy.is_exact(bitwise=opened.description.arithmetic == EXACT_ARITHMETIC):
        return TrainingComparison(right, found, probe, (), 0.0, precision)
    if policy.kind is PolicyKind.ULP:
        return TrainingComparison(right, found, probe, (1.0,) * len(right), policy.ulps, precision)
    return TrainingComparison(right, found, probe, part_floors(opened, engine, probe, found), FACTOR, precision)


def _finding(comparison: TrainingComparison, step: int, kinds: frozenset[str], case: str) -> Finding:
    difference = comparison.first_difference(step, kinds)
    if difference is not None:
        return Finding.failed(difference[1], (difference[0],), case=case)
    parts = [part for part in comparison.right if part.step == step and part.kind in kinds]
    count = sum(len(part.tensors) for part in parts)
    how = "within its measured rounding" if comparison.floors else "in every bit"
    met = [TENSORS.met(count), *_met(comparison, step)]
    return Finding.passed(f"{counted(count, 'tensor')} as the reference's, {how}", case, met)


def _met(comparison: TrainingComparison, step: int) -> list[Met]:
    """Count what the batch of a step holds, and whether its gradients are longer than the limit."""
    batch, clip = comparison.probe.batches[step - 1], comparison.probe.settings.clip
    inputs = [story[: batch.width] for story in batch.stories]
    ids = [token for row in inputs for token in row]
    gradients = [
        float(np.linalg.norm(value))
        for part in comparison.right
        if part.step == step and part.kind == GRADIENT
        for value in part.tensors.values()
    ]
    return [
        REPEATED.met(len(ids) - len(set(ids))),
        PADDED.met(sum(batch.width - len(row) for row in inputs)),
        CLIPPED.met(clip is not None and hypot(*gradients) > clip),
    ]
