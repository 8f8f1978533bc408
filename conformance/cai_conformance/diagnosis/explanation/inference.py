"""Why rows or tokens on given weights are wrong: where the difference begins, and which mistake gives it.

At which cuts a sequence that is fed in two calls comes out wrong.

Up to which difference the explanations call two numbers equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.backends.engine.stages import staged_ids
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.tolerance.floor import NoiseFloor, estimated_floor
from cai_conformance.checks.tolerance.policy import FACTOR
from cai_conformance.checks.vectors import EXACT_ARITHMETIC
from cai_conformance.diagnosis.diagnosis import MOST_LINES, Diagnosis, diagnosis_of_stages
from cai_conformance.diagnosis.distances import measured
from cai_conformance.diagnosis.evidence import BatchRows, SessionRows
from cai_conformance.diagnosis.explanation.shown import Shown, cached_stages, held_ids, shown_rows, shown_stages
from cai_conformance.diagnosis.fits import Fit, fitting_conventions
from cai_conformance.diagnosis.stages import StageFindings, session_findings, stage_findings
from cai_conformance.engine import MANTISSA_BITS, Feature
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack


def cuts_line(opened: OpenedModel, model: DecoderStack, ids: tuple[int, ...], tolerance: float) -> str:
    """Return a sentence about all cuts of a sequence in two; empty where none of them fails.

    Raises:
        EngineError: the engine failed.
    """
    opened.load()
    heads = model.forward(Tape(FAST, recording=False), ids, batch=1)
    right = np.stack([head.value[0] for head in heads])
    wrong: list[tuple[int, float]] = []
    for first in range(1, len(ids)):
        session = EngineSession(opened.engine)
        logits = [
            np.concatenate(pair) for pair in zip(session.feed(ids[:first]), session.feed(ids[first:]), strict=True)
        ]
        off = float(np.max(np.abs(np.nan_to_num(np.stack(logits), nan=np.inf) - right)))
        if not off <= tolerance:
            wrong.append((first, off))
    if not wrong:
        return ""
    smallest, worst = wrong[0], max(wrong, key=lambda cut: cut[1])
    return (
        f"fed in two calls, {len(wrong)} of {len(ids) - 1} cuts fail: the first is {_cut(smallest, ids)}, "
        f"the worst {_cut(worst, ids)}"
    )


def _cut(cut: tuple[int, float], ids: tuple[int, ...]) -> str:
    return f"{cut[0]} + {len(ids) - cut[0]} (off by {cut[1]:.3g})"


LEAST = 1e-12
"""Between the reference in strict and in fast arithmetic, in proportion to what is compared."""


def floor_of(evidence: Evidence) -> NoiseFloor:
    """Return the backend's floor; of one that computes in strict arithmetic, what the reference's fast one costs.

    Raises:
        EngineError: the engine failed.
    """
    given = evidence.question.given
    assert given is not None
    arithmetic = evidence.answers.arithmetic
    if arithmetic == EXACT_ARITHMETIC or evidence.floor is None:
        return estimated_floor(given, evidence.question.vectors.cases, "float64")
    return evidence.floor


def relative_floor(floor: NoiseFloor) -> float:
    """Return the part of its largest number by which a row may be off."""
    ulps = max(floor.near.ulps, floor.far.ulps)
    return max(LEAST, FACTOR * ulps * 2.0 ** -MANTISSA_BITS[floor.precision])


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
    scale = max(float(np.max(np.abs(np.nan_to_num(each.rows.rows, posinf=0.0, neginf=0.0)))) for each in shown)
    tolerance = relative_floor(floor) * max(1.0, scale)
    wrong = [each for each in shown if max(each.rows.residuals(model, FAST)) > tolerance]
    if not wrong:
        return Diagnosis()
    fits = _fits(model, shown, wrong, tolerance)
    whole = any(isinstance(each.rows, BatchRows) for each in wrong)
    findings = _whole_pass(evidence, model, floor) if whole else _last_call(evidence, wrong[0], model, floor)
    heading = _heading(shown, wrong)
    if not whole and evidence.opened is not None:
        ids = staged_ids(evidence.question.vectors.cases)
        cuts = cuts_line(evidence.opened, model, ids, tolerance)
        heading = "; ".join(part for part in (heading, cuts) if part)
    diagnosis = diagnosis_of_stages(findings, fits, heading)
    return diagnosis if diagnosis.stage else _with_row(diagnosis, wrong[0], model, tolerance, floor.precision)


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


def _last_call(evidence: Evidence, wrong: Shown, model: DecoderStack, floor: NoiseFloor) -> StageFindings | None:
    opened, rows = evidence.opened, wrong.rows
    if opened is None or Feature.OBSERVE not in opened.description.features or not isinstance(rows, SessionRows):
        return None
    whole, cached = cached_stages(opened, rows)
    if not whole or not cached:
        return None
    ids = held_ids(rows)
    return session_findings(model, ids, rows.start, whole, cached, STRICT, relative_floor(floor), floor.precision)


def _with_row(diagnosis: Diagnosis, wrong: Shown, model: DecoderStack, tolerance: float, precision: str) -> Diagnosis:
    """Name the first logit that differs, where no stage was shown; behind right whole passes a session added it."""
    ids = wrong.rows.ids if isinstance(wrong.rows, BatchRows) else held_ids(wrong.rows)
    heads = model.forward(Tape(FAST, recording=False), ids, batch=1, start=wrong.rows.start)
    right = np.stack([head.value[0] for head in heads])
    places = (
        wrong.rows.wanted if isinstance(wrong.rows, BatchRows) else range(len(ids) - wrong.rows.rows.shape[1], len(ids))
    )
    apart = measured(right[:, list(places)], wrong.rows.rows, tolerance, precision)
    if apart.agrees:
        return diagnosis
    head, row, logit = apart.index
    place = int(list(places)[row])
    line = f"first logit that differs in {wrong.words}: head {head}, token {place}, id {logit}: {apart}"
    return replace(
        diagnosis,
        lines=(line, *diagnosis.lines)[:MOST_LINES],
        stage=f"logits.{head}",
        index=(place, logit),
        expected=apart.expected,
        found=apart.found,
        ulp=apart.narrow_ulp,
        origin="" if isinstance(wrong.rows, BatchRows) else "added",
    )
