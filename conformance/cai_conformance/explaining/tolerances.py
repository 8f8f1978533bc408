"""Up to which difference the explanations call two numbers equal."""

from __future__ import annotations

from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.vectors import EXACT_ARITHMETIC
from cai_conformance.measuring.floor import NoiseFloor, estimated_floor
from cai_conformance.measuring.policy import FACTOR

LEAST = 1e-12
"""Between the reference in strict and in fast arithmetic, in proportion to what is compared."""


def floor_of(evidence: Evidence) -> NoiseFloor:
    """Return the backend's floor; of one that computes in strict arithmetic, what the reference's fast one costs.

    Raises:
        EngineError: the engine failed.
    """
    given = evidence.question.given
    assert given is not None
    arithmetic = evidence.edges.envelope.arithmetic
    if arithmetic == EXACT_ARITHMETIC or evidence.floor is None:
        return estimated_floor(given, evidence.question.vectors.cases, "float64")
    return evidence.floor


def relative_floor(floor: NoiseFloor) -> float:
    """Return the part of its largest number by which a row may be off."""
    ulps = max(floor.near.ulps, floor.far.ulps)
    return max(LEAST, FACTOR * ulps * 2.0 ** -MANTISSA_BITS[floor.precision])
