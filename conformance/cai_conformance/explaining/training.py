"""Why training on given weights is wrong: the first part of the first step, and which mistake gives it."""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.diagnosis import Diagnosis, ShownStep, training_findings
from cai_conformance.diagnosis.diagnosis import diagnosis_of_training
from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.engines.training import OptimizerState
from cai_conformance.judges.engines.training import compared
from cai_conformance.judges.evidence import Evidence
from cai_conformance.measuring.policy import FACTOR
from cai_conformance.measuring.training_parts import (
    FIRST_MOMENT,
    GRADIENT,
    LOSS,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
)
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic import STRICT
from cai_reference.text.story_batches import StoryBatch

LEAST = 1e-13
"""Between two orders of summation in double precision, in proportion to the largest number of a part."""


def explain_training(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Explain the steps that were judged.

    Raises:
        EngineError: the engine failed.
    """
    comparison = compared(evidence)
    given = evidence.question.given
    if comparison is None or given is None:
        return Diagnosis()
    probe = comparison.probe
    steps = [
        _shown([part for part in comparison.found if part.step == number + 1], probe.batches[number])
        for number in range(len(probe.batches))
    ]
    floors = max(comparison.floors, default=1.0)
    floor = max(LEAST, 2.0 * FACTOR * floors * 2.0 ** -MANTISSA_BITS[comparison.precision])
    finding = training_findings(given.model, probe.settings, steps, STRICT, floor, comparison.precision)
    return Diagnosis() if finding is None else diagnosis_of_training(finding)


def _shown(parts: Sequence[TrainingPart], batch: StoryBatch) -> ShownStep:
    by_kind = {part.kind: part.tensors for part in parts}
    state = OptimizerState(by_kind[WEIGHTS], by_kind[FIRST_MOMENT], by_kind[SECOND_MOMENT])
    return ShownStep(batch, float(by_kind[LOSS][LOSS][0]), by_kind[GRADIENT], state)
