"""The judge of initial values by their law: what holds of any good draws, whatever the generator and the last bits.

The answers to vector cases about Xavier's rule are looked at. A matrix [fan in, fan out] is uniform between −a and a,
a = √(6 / (fan in + fan out)). Of n such numbers the mean has the standard deviation a / √(3n), and the mean of squares
has the expectation a² / 3 and the standard deviation 2a² / √(45n). That none of them is beyond t · a has the
probability tⁿ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Final

import numpy as np

from cai_conformance.checks.case_witnesses import Input
from cai_conformance.checks.check import check
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.witness import Witness, told
from cai_conformance.verdicts import Level
from cai_reference.arithmetic import Array

OPERATION: Final = "init.xavier"
DEVIATIONS: Final = 5.0
"""How many standard deviations a mean may be off: good draws are further off once in a million times."""
SELDOM: Final = 1e-6
"""How often the largest of good draws may be smaller than is allowed."""
NEAR: Final = 2.0**-6
"""By how much two numbers may differ, in limits, and still be the same draw: half a unit of bfloat16 and more."""

TENSORS: Final = Witness("tensor", "tensors", least=2)
NUMBERS: Final = Witness("number", "numbers", least=64)
PAIRS: Final = Witness("pair of tensors", "pairs of tensors", cases=("distinct",))


@dataclass(frozen=True)
class DrawnTensor:
    """An initial tensor of an answer.

    Attributes:
        name: of the case, and its place there.
        limit: a.
        rows: [fan in, fan out].
    """

    name: str
    limit: float
    rows: Array

    @property
    def units(self) -> Array:
        """Its numbers in limits, in the order in which they were given: those of another tensor have the same law."""
        return self.rows.ravel() / self.limit


@check(
    "init.stats",
    Level.T0,
    "initial weights have the mean and the spread of their law, and no two tensors are the same draws",
    "Of any generator, in any arithmetic: limits that are forgotten to be rooted, and tensors that all begin with the "
    "same draws. By how much a mean may be off follows from how many numbers there are.",
    cases=("law", "distinct"),
    requires=("trace.convention",),
    of_edges=True,
    witnesses=(TENSORS, NUMBERS, PAIRS),
    catches="init.same-for-all init.variance-for-deviation",
)
def judge_initial_statistics(evidence: Evidence) -> tuple[Finding, ...]:
    """Hold the answers about initial values to their law, and tensors against each other."""
    tensors = tuple(_tensors(evidence))
    if not tensors:
        return (Finding.skipped("the backend gave no initial values"),)
    pairs = list(combinations(tensors, 2))
    met = [TENSORS.met(len(tensors)), NUMBERS.met(sum(each.rows.size for each in tensors)), PAIRS.met(len(pairs))]
    wrong = next((words for words in map(_against_the_law, tensors) if words), "")
    alike = next((words for words in (_alike(one, other) for one, other in pairs) if words), "")
    equal = alike or next((words for words in map(_equal_rows, tensors) if words), "")
    largest = max(tensors, key=lambda each: each.rows.size)
    shown = f"{largest.name}: {_described(largest)}"
    return (
        Finding.failed(f"{wrong}; {told(met)}", case="law")
        if wrong
        else Finding.passed(f"means and deviations are those of the law, {shown}; {told(met)}", "law", met),
        Finding.failed(f"{equal}; {told(met)}", case="distinct")
        if equal
        else Finding.passed(
            f"no two tensors, and no two rows of one, are the same draws; {told(met)}", "distinct", met
        ),
    )


def _tensors(evidence: Evidence) -> Iterator[DrawnTensor]:
    """Yield the tensors of every answer that has as many numbers as were asked for."""
    for case in evidence.question.vectors.cases:
        if case.operation != OPERATION:
            continue
        answer = evidence.answers.of(case)
        given: Input = case.input
        shapes = [(int(fan_in), int(fan_out)) for fan_in, fan_out in given["shapes"]]
        if answer is None or answer.values is None:
            continue
        values = np.array(answer.values)
        if values.size != sum(fan_in * fan_out for fan_in, fan_out in shapes):
            continue
        for place, (fan_in, fan_out) in enumerate(shapes):
            part, values = values[: fan_in * fan_out], values[fan_in * fan_out :]
            limit = sqrt(6.0 / (fan_in + fan_out))
            yield DrawnTensor(f"{case.identifier} {place}", limit, part.reshape(fan_in, fan_out))


def _against_the_law(tensor: DrawnTensor) -> str:
    """Return what is not as the law says; nothing if all is."""
    units, count = tensor.units, tensor.rows.size
    if not np.isfinite(units).all():
        return f"{tensor.name} has what is no number"
    outside = np.abs(units) > 1.0 + NEAR
    if outside.any():
        at = int(np.argmax(outside))
        return f"{tensor.name}[{at}] is {tensor.rows.flat[at]:.6g}, beyond the limit of {tensor.limit:.6g}"
    mean, allowed = float(np.mean(units)), DEVIATIONS / sqrt(3.0 * count)
    squares, off = float(np.mean(units * units)), 2.0 * DEVIATIONS / sqrt(45.0 * count)
    if not abs(mean) <= allowed:
        return f"the mean of {tensor.name} is {mean * tensor.limit:.3g}, of {count} draws ±{allowed * tensor.limit:.3g}"
    if not abs(squares - 1.0 / 3.0) <= off:
        return f"{tensor.name} is spread by {_described(tensor)}"
    largest, least = float(np.max(np.abs(units))), SELDOM ** (1.0 / count)
    if not largest >= least:
        return (
            f"the largest of {count} draws of {tensor.name} is {largest * tensor.limit:.3g}, and the limit "
            f"{tensor.limit:.3g}: once in a million times it is below {least * tensor.limit:.3g}"
        )
    return ""


def _described(tensor: DrawnTensor) -> str:
    """Return the standard deviation, that of the law, and between which two it may lie."""
    units, limit = tensor.units, tensor.limit
    off = 2.0 * DEVIATIONS / sqrt(45.0 * tensor.rows.size)
    low, high = (limit * sqrt(max(0.0, 1.0 / 3.0 + sign * off)) for sign in (-1.0, 1.0))
    found, right = limit * float(np.sqrt(np.mean(units * units))), limit / sqrt(3.0)
    return (
        f"a standard deviation of {found:.3g}, the law's is {right:.3g}, and of {counted(tensor.rows.size, 'draw')} "
        f"it lies between {low:.3g} and {high:.3g}"
    )


def _alike(one: DrawnTensor, other: DrawnTensor) -> str:
    """Return that two tensors begin with the same draws, but for their limits; nothing if they do not."""
    count = min(one.rows.size, other.rows.size)
    if _near(one.units[:count], other.units[:count], NEAR):
        return f"{one.name} and {other.name} begin with the same {counted(count, 'draw')}"
    return ""


def _equal_rows(tensor: DrawnTensor) -> str:
    """Return that two rows of a tensor are the same draws; nothing if none are."""
    for one, other in combinations(range(len(tensor.rows)), 2):
        if _near(tensor.rows[one], tensor.rows[other], NEAR * tensor.limit):
            return f"rows {one} and {other} of {tensor.name} are the same draws"
    return ""


def _near(one: Array, other: Array, allowed: float) -> bool:
    """Tell whether all numbers are nearly equal; what is no number is near nothing."""
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(one - other) <= allowed))
