"""Whether an engine offers a feature: it has to list it, and to have its methods.

A program that is reached from outside has the methods of everything; what it can do is what it lists.
"""

from __future__ import annotations

from cai_conformance.engine import (
    CheckpointingEngine,
    CopyingEngine,
    DroppingEngine,
    Engine,
    FailingEngine,
    Feature,
    GeneratingEngine,
    PoisonableEngine,
    TrainingEngine,
)


def dropping(engine: Engine) -> DroppingEngine | None:
    """Return the engine if it forgets positions."""
    return engine if _lists(engine, Feature.DROP) and isinstance(engine, DroppingEngine) else None


def copying(engine: Engine) -> CopyingEngine | None:
    """Return the engine if it copies slots."""
    return engine if _lists(engine, Feature.COPY) and isinstance(engine, CopyingEngine) else None


def generating(engine: Engine) -> GeneratingEngine | None:
    """Return the engine if it generates by a loop of its own."""
    return engine if _lists(engine, Feature.GENERATE) and isinstance(engine, GeneratingEngine) else None


def training(engine: Engine) -> TrainingEngine | None:
    """Return the engine if it trains."""
    return engine if _lists(engine, Feature.TRAIN) and isinstance(engine, TrainingEngine) else None


def checkpointing(engine: Engine) -> CheckpointingEngine | None:
    """Return the engine if it writes its training to a directory and goes on from there."""
    return engine if _lists(engine, Feature.CHECKPOINT) and isinstance(engine, CheckpointingEngine) else None


def poisonable(engine: Engine) -> PoisonableEngine | None:
    """Return the engine if its unowned memory can be filled."""
    return engine if _lists(engine, Feature.POISON) and isinstance(engine, PoisonableEngine) else None


def failing(engine: Engine) -> FailingEngine | None:
    """Return the engine if it can be made to fail within a call."""
    return engine if _lists(engine, Feature.FAIL_AFTER) and isinstance(engine, FailingEngine) else None


def _lists(engine: Engine, feature: Feature) -> bool:
    return feature in engine.description.features
