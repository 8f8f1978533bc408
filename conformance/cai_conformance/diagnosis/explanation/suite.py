"""From the verdicts of a suite to the same verdicts with an explanation beside the first failure of each part.

Notes of a report: the floors that judged, and the seeded faults that would pass below them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.tolerance.policy import FACTOR, PolicyKind
from cai_conformance.diagnosis.diagnosis import Diagnosis
from cai_conformance.diagnosis.explanation.answers import explain_answers, explain_unit, invisible_faults
from cai_conformance.diagnosis.explanation.inference import explain_inference
from cai_conformance.diagnosis.explanation.training import explain_run, explain_training
from cai_conformance.errors import ConformanceError
from cai_conformance.verdicts import Explanation, Outcome, Verdict
from cai_reference.errors import CaiReferenceError

Explainer = Callable[[Evidence, Sequence[Verdict]], Diagnosis]

GIVEN_INFERENCE: Final = (
    *("fwd.oracle", "causal.flip", "rope.shift", "kv.split", "kv.reach", "kv.batch", "kv.steps", "kv.cuts"),
    *("kv.rollback", "kv.reuse", "kv.edge", "kv.window", "ssm.split", "ssm.boundary", "ssm.snap"),
    *("gen.given", "smp.tie", "spec.twin", "spec.rows"),
)
GIVEN_TRAINING: Final = ("loss.given", "grad.given", "opt.given", "grad.accum", "grad.fd", "eval.batch")
RUN: Final = ("run.golden",)

PARTS: Final[Mapping[tuple[str, ...], tuple[Explainer, ...]]] = {
    GIVEN_INFERENCE: (explain_inference, explain_answers),
    GIVEN_TRAINING: (explain_training,),
    RUN: (explain_run,),
}
"""Checks of each part of a suite, and who may explain their failures, in this order until one can."""


def explained(evidence: Evidence, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts of one suite, the first failure of each part with its explanation.

    Nobody else may use the reference in this process meanwhile: mistakes are planted into it and taken out again.
    """
    found = list(verdicts)
    for checks, explainers in _parts(evidence, verdicts).items():
        failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL and _name(verdict) in checks]
        if failed:
            place = found.index(failed[0])
            found[place] = replace(found[place], explanation=_explanation(evidence, failed, explainers))
    return tuple(found)


def _parts(evidence: Evidence, verdicts: Sequence[Verdict]) -> Mapping[tuple[str, ...], tuple[Explainer, ...]]:
    """Return what is explained together: the parts of a decode suite, or every check of one whose cases are units."""
    if evidence.question.given is not None:
        return PARTS
    return {(_name(verdict),): (explain_unit,) for verdict in verdicts if verdict.check.endswith("]")}


def _explanation(evidence: Evidence, failed: Sequence[Verdict], explainers: Sequence[Explainer]) -> Explanation | None:
    best = Diagnosis()
    for explain in explainers:
        try:
            diagnosis = explain(evidence, failed)
        except (ConformanceError, CaiReferenceError, ArithmeticError, ValueError):
            # What cannot be explained stays a failure with its own sentence.
            continue
        if diagnosis.conventions or not best:
            best = diagnosis or best
        if best.conventions:
            break
    if not best:
        return None
    return Explanation(
        best.lines, best.stage, best.index, best.expected, best.found, best.ulp, best.origin, best.conventions
    )


def _name(verdict: Verdict) -> str:
    return verdict.check.partition("::")[2].partition("[")[0]


def notes_of(evidence: Evidence) -> Iterator[str]:
    """Yield a line about the floor of a suite, where rows were judged by it, and one about sizes only claimed."""
    if evidence.opened_before is not None and evidence.opened_before.loaded.claimed:
        claims = ", ".join(f"{name} {size}" for name, size in evidence.opened_before.loaded.claimed.items())
        yield f"{evidence.question.request.suite}: claimed by the backend, and not counted: {claims}"
    question, floor = evidence.question, evidence.floor_used
    if floor is None or question.given is None or question.policy.kind is PolicyKind.ULP:
        return
    hidden = invisible_faults(question.given, question.vectors.cases, floor)
    told = (
        f"seeded faults that would hide below it: {', '.join(hidden)}" if hidden else "no seeded fault hides below it"
    )
    yield f"{question.request.suite}: {floor}; {FACTOR:g} floors are allowed, {told}"
