"""Which seeded faults, planted into the reference, give the very answers that a backend gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.diagnosis.distances import scale_of, ulp_between
from cai_conformance.faults import FAULTS, Fault, Place
from cai_conformance.trace.records import Record
from cai_conformance.vectors import Answer, VectorCase
from cai_reference.errors import CaiReferenceError

MOST: Final = 3
"""How many mistakes are named."""

Answered: TypeAlias = tuple[VectorCase, Record]
Answerer: TypeAlias = Callable[[VectorCase], Answer]


OF_INFERENCE: Final = tuple(fault for fault in FAULTS if fault.places != frozenset({Place.TRAINING}))
"""What is tried where nothing is trained."""


def fitting_faults(
    wrong: Sequence[Answered],
    rest: Sequence[Answered],
    answer: Answerer,
    relative: float,
    candidates: Sequence[Fault] = FAULTS,
) -> list[Fault]:
    """Return the faults that reproduce all answers; the wrong ones are tried first, because they rule out most.

    Args:
        wrong: cases with answers that are not the right ones.
        rest: cases with right answers, which a fault must leave as they are.
        answer: what the reference answers.
        relative: up to which part of the largest number of an answer its numbers may be off.
        candidates: what is tried, in this order.
    """
    fits: list[Fault] = []
    for fault in candidates:
        if _gives(fault, [*wrong, *rest], answer, relative):
            fits.append(fault)
        if len(fits) == MOST:
            break
    return fits


def rounding_line(wrong: Sequence[Answered], answer: Answerer, relative: float) -> str:
    """Return by how much wrong answers differ from the reference's, where that is rounding; nothing where it is more.

    A fault that leaves these answers as they are would fit such answers as well as any other.

    Args:
        wrong: cases with answers that are not the right ones.
        answer: what the reference answers.
        relative: up to which part of the largest number of an answer a difference is rounding.
    """
    most = 0
    for case, found in wrong:
        made = answer(case)
        if not equal_answers(made, found, relative):
            return ""
        if made.values is not None:
            pairs = zip(made.values, found.bits("values"), strict=True)
            most = max([most, *(ulp_between(one, other, "float64") for one, other in pairs)])
    if not most:
        return ""
    return f"rounding alone, at most {most} ULP: another order of sums, fused products, or other elementary functions"


def fit_lines(fits: Sequence[Fault], wrong: int, known: int) -> tuple[str, ...]:
    """Return a line for each fault."""
    return tuple(
        f"fits: {fault.title} ({fault.slug}): gives the backend's answers, {wrong} wrong ones among {known}"
        for fault in fits
    )


def _gives(fault: Fault, answers: Sequence[Answered], answer: Answerer, relative: float) -> bool:
    with fault.planted():
        for case, found in answers:
            try:
                made = answer(case)
            except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                return False
            if not equal_answers(made, found, relative):
                return False
    return True


def equal_answers(made: Answer, found: Record, relative: float) -> bool:
    """Tell whether a record gives an answer."""
    if made.ids is not None:
        return found.has("ids") and tuple(found.integers("ids")) == made.ids
    if made.values is not None:
        if not found.has("values"):
            return False
        one, other = np.array(made.values), np.array(found.bits("values"))
        if one.shape != other.shape:
            return False
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        apart = np.abs(one[~same] - other[~same])
        # A NaN is at no distance: it is the same or it is not.
        return bool(np.all(apart <= relative * scale_of(one)))
    return found.has("text") and found.get("text") == made.text
