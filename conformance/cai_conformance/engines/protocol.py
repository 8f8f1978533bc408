"""What is asked of an engine, by its first name: `cai_conformance.engine` has it."""

from cai_conformance.engine import (
    CopyingEngine,
    DroppingEngine,
    Engine,
    Evaluated,
    FailingEngine,
    Generated,
    GeneratingEngine,
    GenerationOrder,
    Loaded,
    Piece,
    PoisonableEngine,
)

__all__ = [
    "CopyingEngine",
    "DroppingEngine",
    "Engine",
    "Evaluated",
    "FailingEngine",
    "Generated",
    "GeneratingEngine",
    "GenerationOrder",
    "Loaded",
    "Piece",
    "PoisonableEngine",
]
