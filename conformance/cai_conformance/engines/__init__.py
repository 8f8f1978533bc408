"""Engines, by their first name: `cai_conformance.engine` has all of it."""

from cai_conformance.engine import (
    Description,
    Engine,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    Nondeterminism,
    Piece,
    Precision,
)

__all__ = [
    "Description",
    "Engine",
    "Evaluated",
    "Feature",
    "Generated",
    "GenerationOrder",
    "Loaded",
    "Nondeterminism",
    "Piece",
    "Precision",
]
