"""The judge of rows of logits where bits are not defined: what the backend's own rounding explains passes.

Formats with fewer than 24 bits are also held to the divergence of the two distributions. A row that passes and whose
largest logit is another one is a near tie.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.tolerance.distance import RowDistance, distance_between
from cai_conformance.checks.tolerance.floor import NoiseFloor, NoiseLevel
from cai_conformance.checks.tolerance.policy import FACTOR, Policy, PolicyKind
from cai_conformance.engine import MANTISSA_BITS
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.trace.format import format_bits
from cai_conformance.verdicts import Difference, Outcome, Problem
from cai_reference.arithmetic.bits import ulp_distance

COARSE_BITS: Final = 23
"""Formats with fewer stored bits are held to the divergence as well."""
LEAST_DIVERGENCE: Final = 1e-9
"""Nats below which two distributions are not told apart."""


def allowed_ulps(policy: Policy, level: NoiseLevel) -> float:
    """Return how many units in the last place of its largest logit a row may be off."""
    return policy.ulps if policy.kind is PolicyKind.ULP else FACTOR * level.ulps


def judge_row(case: VectorCase, answer: Answer, policy: Policy, floor: NoiseFloor) -> Finding:
    """Compare a row with the right one."""
    assert case.expected is not None and case.expected.values is not None
    right, found = np.array(case.expected.values), np.array(answer.values or ())
    if right.shape != found.shape:
        shape = Difference(Problem.SHAPE, case.label, "values", None, f"{right.size} items", f"{found.size} items")
        return Finding.failed(f"{shape}. Typical cause: {case.sees}", (shape,), case=case.case)
    distance, allowed = distance_between(right, found, floor.precision), allowed_ulps(policy, floor.level(case))
    off = f"{distance.ulps:.3g} ULP of {floor.precision} at the row's largest logit"
    rule = f"{allowed:.3g} allowed" if policy.kind is PolicyKind.ULP else f"{allowed:.3g} allowed, {FACTOR:g} floors"
    if not distance.ulps <= allowed or _diverges(policy, floor.precision, floor.level(case), distance):
        difference = _difference(case.label, distance.index, float(right[distance.index]), float(found[distance.index]))
        text = f"{difference}; off by {off}, {rule}; KL {distance.divergence:.2g} nats"
        return Finding.failed(f"{text}. Typical cause: {case.sees}", (difference,), case=case.case)
    told = f"off by {off}, {rule}; KL {distance.divergence:.2g} nats"
    if not distance.same_choice:
        first, second = int(np.argmax(right)), int(np.argmax(found))
        gap = float(right[first] - right[second])
        text = f"the largest logit is that of {second}, not of {first}, which leads by {gap:.3g}; {told}"
        return Finding(Outcome.NEAR_TIE, text, case=case.case)
    return Finding.passed(told, case=case.case)


def _diverges(policy: Policy, precision: str, level: NoiseLevel, distance: RowDistance) -> bool:
    if policy.kind is PolicyKind.ULP or MANTISSA_BITS[precision] >= COARSE_BITS:
        return False
    # The divergence grows with the square of what moves the logits.
    return not distance.divergence <= max(LEAST_DIVERGENCE, FACTOR * FACTOR * level.divergence)


def _difference(label: str, index: int, right: float, found: float) -> Difference:
    problem = Problem.NAN if found != found else Problem.VALUE
    distance = ulp_distance(right, found) if np.isfinite(found) else None
    return Difference(problem, label, "values", index, _spelt(right), _spelt(found), distance)


def _spelt(value: float) -> str:
    """Return the bits of a number, and what they are."""
    return f"{format_bits(value)} ({value:.9g})"
