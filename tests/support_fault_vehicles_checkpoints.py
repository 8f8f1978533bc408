"""What seeded faults of checkpoints are planted under: a training that is saved, resumed, damaged and resumed again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cai_conformance.engines.errors import Refused
from cai_conformance.engines.given_model import folder_of
from cai_conformance.engines.reference_checkpoints import FILE
from cai_conformance.engines.reference_engine import ReferenceEngine
from cai_conformance.engines.training import TrainingBatch, TrainingSettings
from cai_reference.arithmetic import FAST
from support_foreign_engines import given

BATCH: Final = TrainingBatch(((0, 17, 300, 17), (0, 5, 0, 0)), (((17, 300, 17, 1), (5, 1, -1, -1)),))
SETTINGS: Final = TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, 0.5, ())
OTHER: Final = TrainingSettings(0.002, 0.5, 0.9, 1e-3, 0.0, None, ())


def checkpointing(suite: str) -> bytes:
    """Save after two steps, train something else, resume, try damaged files and none, each with a step behind it."""
    engine = ReferenceEngine(FAST)
    with folder_of(given(suite).files()) as folder:
        engine.load(folder)
    engine.start_training(SETTINGS)
    found = [engine.train_step(BATCH), engine.train_step(BATCH)]
    with TemporaryDirectory() as name:
        directory = Path(name)
        engine.save_training(directory)
        found.append(engine.train_step(BATCH))
        whole = (directory / FILE).read_bytes()
        half = len(whole) // 2
        flipped = whole[:half] + bytes([whole[half] ^ 0x10]) + whole[half + 1 :]
        for data in (whole, whole[:half], flipped, None):
            (directory / FILE).unlink() if data is None else (directory / FILE).write_bytes(data)
            engine.start_training(OTHER)
            found.append(engine.train_step(BATCH))
            try:
                engine.resume_training(directory)
            except Refused:
                found.append(-1.0)
            found += [engine.train_step(BATCH), engine.train_step(BATCH)]
    state = engine.training_state()
    return repr(found).encode() + b"".join(value.tobytes() for value in state.weights.values())
