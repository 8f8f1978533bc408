"""Why the losses of a whole run are wrong: the first reported step that differs, and which mistake gives it.

Why training on given weights is wrong: the first part of the first step, and which mistake gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cai_conformance.backends.reference.story_training import prepare
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.optimizer import compared
from cai_conformance.checks.tolerance.policy import FACTOR
from cai_conformance.checks.tolerance.training import FIRST_MOMENT, GRADIENT, LOSS, SECOND_MOMENT, WEIGHTS, TrainingPart
from cai_conformance.diagnosis.diagnosis import Diagnosis, diagnosis_of_run, diagnosis_of_training
from cai_conformance.diagnosis.runs import Losses, ShownRun, run_findings
from cai_conformance.diagnosis.steps import ShownStep
from cai_conformance.diagnosis.training import training_findings
from cai_conformance.engine import MANTISSA_BITS, OptimizerState
from cai_conformance.trace.records import Trace
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic.instances import STRICT
from cai_reference.text.story_batches import StoryBatch

PRINTED: Final = 1.1e-6
"""How far apart two losses may be that print alike or beside each other."""


def explain_run(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Explain the LOSS records by training the reference again, with one mistake at a time.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
        FixtureError: the suite's own stories cannot be prepared.
    """
    given, golden = evidence.question.given, evidence.question.golden
    if given is None or golden is None:
        return Diagnosis()
    run = ShownRun(given.phase, given.sizes, prepare(given.sizes, b""))
    expected = _losses(golden, [record.integer("step") for record in golden.all("LOSS")])
    finding = run_findings(run, expected, _losses(evidence.main, expected), PRINTED)
    return Diagnosis() if finding is None else diagnosis_of_run(finding)


def _losses(trace: Trace, steps: Iterable[int]) -> dict[int, Losses]:
    """Return the losses after some steps; a trace may have very many others."""
    found = {step: trace.find("LOSS", step=step) for step in steps}
    return {
        step: Losses(record.real("train"), record.real("validation"))
        for step, record in found.items()
        if record is not None
    }


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
