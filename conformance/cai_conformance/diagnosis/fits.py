"""Which known mistake explains what a backend showed: each is planted into the reference, and whatever fits is named.

One mistake alone is tried first; only where none fits, two settings together, and layout, base and start of rotary
positions all three. Naming is no proof: another mistake may give the same numbers. But a convention that turns a
difference of 4 into one of 1e-14 is worth looking at first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from cai_conformance.diagnosis.evidence import ShownEvidence
from cai_conformance.faults.catalogue import GUESSES
from cai_conformance.faults.fault import Fault, Place, planted_together
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST
from cai_reference.errors import CaiReferenceError
from cai_reference.models.stack import DecoderStack

MOST: Final = 5
"""How many conventions are named."""

NOTICEABLE: Final = 1e-9
"""A change below this part of a difference is none."""


@dataclass(frozen=True)
class Fit:
    """Faults that together reproduce what was shown.

    Attributes:
        faults: one, or several settings.
        residual: the largest difference that is left.
        unexplained: the largest difference without them.
    """

    faults: tuple[Fault, ...]
    residual: float
    unexplained: float

    @property
    def slugs(self) -> tuple[str, ...]:
        """The names of the faults."""
        return tuple(fault.slug for fault in self.faults)

    @property
    def title(self) -> str:
        """What is wrong, in a few words."""
        return " and ".join(fault.title for fault in self.faults)

    def __str__(self) -> str:
        names = ", ".join(self.slugs)
        return f"{self.title} ({names}): leaves {self.residual:.2g} of {self.unexplained:.2g}"


def fitting_conventions(
    model: DecoderStack,
    evidence: Sequence[ShownEvidence],
    tolerance: float,
    arithmetic: Arithmetic = FAST,
    candidates: Sequence[Fault] = GUESSES,
    *,
    together: bool = True,
) -> tuple[Fit, ...]:
    """Return which faults reproduce all evidence where the reference as it is does not; best first, at most five.

    Args:
        model: the reference's, with the given weights.
        evidence: what the backend showed; what it shows right narrows the choice, too. Cheap ones first.
        tolerance: up to which difference a fault fits.
        arithmetic: in which the reference is run; the difference to the backend's own must be within the tolerance.
        candidates: what is tried, in this order.
        together: whether settings are tried together where none fits alone, which takes some ten times as long.
    """
    if not evidence:
        return ()
    places = frozenset[Place]().union(*(each.places for each in evidence))
    unexplained = max(_residuals(model, evidence, (), arithmetic), default=0.0)
    if unexplained <= tolerance:
        return ()
    tried = [fault for fault in candidates if fault.places & places]
    untouched = _residuals(model, evidence, (), arithmetic, tolerance)
    fits: list[Fit] = []
    settings: list[Fault] = []
    for fault in tried:
        found = _residuals(model, evidence, (fault,), arithmetic, tolerance)
        if max(found) <= tolerance:
            fits.append(Fit((fault,), max(found), unexplained))
        if fault.knob and not _same(found, untouched):
            settings.append(fault)
    for combined in (_pairs(settings), _rotary_threes(settings)) if together else ():
        if fits:
            break
        for faults in combined:
            largest = max(_residuals(model, evidence, faults, arithmetic, tolerance))
            if largest <= tolerance:
                fits.append(Fit(faults, largest, unexplained))
    return tuple(sorted(fits, key=lambda fit: _decade(fit.residual, tolerance))[:MOST])


def _pairs(settings: Sequence[Fault]) -> list[tuple[Fault, ...]]:
    """Return all pairs of different settings."""
    return [pair for pair in combinations(settings, 2) if pair[0].knob != pair[1].knob]


def _rotary_threes(settings: Sequence[Fault]) -> list[tuple[Fault, ...]]:
    """Return every layout with every base and every start."""
    rotary = [fault for fault in settings if fault.knob.startswith("rope ")]
    return [three for three in combinations(rotary, 3) if len({fault.knob for fault in three}) == 3]


def _residuals(
    model: DecoderStack,
    evidence: Sequence[ShownEvidence],
    faults: tuple[Fault, ...],
    arithmetic: Arithmetic,
    enough: float = math.inf,
) -> tuple[float, ...]:
    """Return the residuals of all evidence, up to the first piece that has one beyond `enough`."""
    found: list[float] = []
    with planted_together(faults):
        for each in evidence:
            try:
                found += each.residuals(model, arithmetic)
            except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                # What a planted reference cannot compute, no backend has shown.
                return (math.inf,)
            if max(found, default=0.0) > enough:
                break
    return tuple(found)


def _same(found: tuple[float, ...], untouched: tuple[float, ...]) -> bool:
    """Tell whether a fault has changed nothing."""
    return len(found) == len(untouched) and all(
        abs(one - other) <= NOTICEABLE * max(1.0, other) for one, other in zip(found, untouched, strict=True)
    )


def _decade(residual: float, tolerance: float) -> int:
    """Sort by magnitude alone, so that rounding does not decide between what fits equally well."""
    return math.floor(math.log10(max(residual, 1e-6 * tolerance, 1e-300)))
