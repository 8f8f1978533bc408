"""The judge of accumulation: micro batches of three rows and of two add up to the batch of five.

They hold unequal numbers of targets, so that a mean of the two means is another number.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.engines.features import training
from cai_conformance.judges.engines.driving import UNTRAINED
from cai_conformance.judges.engines.training_batches import (
    THREE,
    TWO,
    gradients_of,
    loss_allowance,
    most_units,
    rows_of,
)
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness, told
from cai_conformance.measuring.training_parts import GRADIENT, TrainingPart, rounding_units
from cai_conformance.probing.probe import Probe

CASES: Final = ("loss", "gradients")
OF_THREE: Final = Witness("target of three rows", "targets of three rows")
OF_TWO: Final = Witness("target of two rows", "targets of two rows")
UNEQUAL: Final = Witness("target by which the parts differ", "targets by which the parts differ")
TENSORS: Final = Witness("tensor", "tensors", cases=("gradients",))
WITNESSES: Final = (OF_THREE, OF_TWO, UNEQUAL, TENSORS)


def judge_accumulation(probe: Probe) -> tuple[Finding, ...]:
    """Add two micro batches, weighted by their targets, and compare with all rows at once."""
    engine = training(probe.engine)
    if engine is None:
        return (Finding.skipped(UNTRAINED),)
    rows, precision = rows_of(probe), probe.description.precision.coarsest
    # The rows of the whole stand in another order than in the parts.
    order = (TWO[0], THREE[0], TWO[1], *THREE[1:])
    whole, three, two = (gradients_of(probe, engine, *numbers) for numbers in (order, THREE, TWO))
    weights = np.array([rows.count(*THREE), rows.count(*TWO)], dtype=np.float64)
    shares = weights / weights.sum()
    counts = [OF_THREE.met(rows.count(*THREE)), OF_TWO.met(rows.count(*TWO))]
    met = told(counts)
    counts.append(UNEQUAL.met(abs(rows.count(*THREE) - rows.count(*TWO))))
    loss = float(shares[0] * three.loss + shares[1] * two.loss)
    allowed, off = loss_allowance(whole.loss, precision), abs(whole.loss - loss)
    text = (
        f"3 + 2 rows give a loss of {loss:.9g}, 5 rows {whole.loss:.9g}: off by {off:.3g}, {allowed:.3g} allowed; {met}"
    )
    of_loss = (
        Finding.passed(text, "loss", counts)
        if off <= allowed
        else Finding.failed(f"{text}{_fitting(whole.loss, three.loss, two.loss)}", case="loss")
    )
    right, *parts = (probe.model.by_name(dict(each.gradients)) for each in (whole, three, two))
    units, limit = rounding_units(TrainingPart(1, GRADIENT, right), precision), most_units(precision)
    worst, worst_name = 0.0, ""
    for name, value in right.items():
        distance = np.abs(value - (shares[0] * parts[0][name] + shares[1] * parts[1][name])) / units[name]
        found = float(np.max(distance)) if np.isfinite(distance).all() else np.inf
        if found >= worst:
            worst, worst_name = found, name
    off_by = f"off by {worst:.3g} units at most, at {worst_name}, {limit:g} allowed; {len(right)} tensors, {met}"
    if worst <= limit:
        text = f"gradients of 3 + 2 rows add up to those of 5: {off_by}"
        return (of_loss, Finding.passed(text, "gradients", [*counts, TENSORS.met(len(right))]))
    return (of_loss, Finding.failed(f"gradients of 3 + 2 rows do not add up to those of 5: {off_by}", case="gradients"))


def _fitting(whole: float, three: float, two: float) -> str:
    mean = (three + two) / 2.0
    return f"; the plain mean of the two is {mean:.9g}" if abs(mean - whole) <= 1e-4 * abs(whole) else ""
