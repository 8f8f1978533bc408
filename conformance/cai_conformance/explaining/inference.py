"""Why rows or tokens on given weights are wrong: where the difference begins, and which mistake gives it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cai_conformance.diagnosis import (
    BatchRows,
    Diagnosis,
    StageFindings,
    fitting_conventions,
    session_findings,
    stage_findings,
)
from cai_conformance.diagnosis.conventions import Fit
from cai_conformance.diagnosis.diagnosis import diagnosis_of_stages
from cai_conformance.engines.description import Feature
from cai_conformance.engines.stage_records import staged_ids
from cai_conformance.explaining.shown import Shown, cached_stages, shown_rows, shown_stages
from cai_conformance.explaining.tolerances import floor_of, relative_floor
from cai_conformance.judges.evidence import Evidence
from cai_conformance.measuring.floor import NoiseFloor
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic import FAST, STRICT
from cai_reference.models.stack import DecoderStack


def explain_inference(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Explain what whole passes and sessions gave.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
    """
    given = evidence.question.given
    assert given is not None
    model, floor = given.model, floor_of(evidence)
    shown = shown_rows(evidence)
    if not shown:
        return diagnosis_of_stages(_whole_pass(evidence, model, floor))
    scale = max(float(np.max(np.abs(np.nan_to_num(each.rows.rows)))) for each in shown)
    tolerance = relative_floor(floor) * max(1.0, scale)
    wrong = [each for each in shown if max(each.rows.residuals(model, FAST)) > tolerance]
    if not wrong:
        return Diagnosis()
    fits = _fits(model, shown, wrong, tolerance)
    whole = any(isinstance(each.rows, BatchRows) for each in wrong)
    findings = _whole_pass(evidence, model, floor) if whole else _second_call(evidence, model, floor)
    return diagnosis_of_stages(findings, fits, _heading(shown, wrong))


def _fits(model: DecoderStack, shown: Sequence[Shown], wrong: Sequence[Shown], tolerance: float) -> tuple[Fit, ...]:
    """Name what fits everything, the wrong rows first: they rule out most candidates."""
    rest = [each for each in shown if each not in wrong]
    return fitting_conventions(model, [each.rows for each in (*wrong, *rest)], tolerance)


def _heading(shown: Sequence[Shown], wrong: Sequence[Shown]) -> str:
    if len(wrong) == len(shown):
        return ""
    right = [each.words for each in shown if each not in wrong]
    return f"right: {', '.join(right)}; wrong: {', '.join(each.words for each in wrong)}"


def _whole_pass(evidence: Evidence, model: DecoderStack, floor: NoiseFloor) -> StageFindings | None:
    stages = shown_stages(evidence)
    if not stages:
        return None
    ids = staged_ids(evidence.question.vectors.cases)
    return stage_findings(model, ids, 0, stages, STRICT, relative_floor(floor), floor.precision)


def _second_call(evidence: Evidence, model: DecoderStack, floor: NoiseFloor) -> StageFindings | None:
    opened = evidence.opened
    if opened is None or Feature.OBSERVE not in opened.description.features:
        return None
    ids = staged_ids(evidence.question.vectors.cases)
    whole, cached = cached_stages(opened, ids, len(ids) // 2)
    if not whole or not cached:
        return None
    return session_findings(model, ids, 0, whole, cached, STRICT, relative_floor(floor), floor.precision)
