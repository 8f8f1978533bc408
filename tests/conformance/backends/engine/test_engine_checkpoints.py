"""Engines that write their training: the reference's file, what it refuses, and foreign objects around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.engine.features import checkpointing
from cai_conformance.backends.engine.guard import GuardedEngine
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.backends.reference.training import FILE
from cai_conformance.engine import (
    EngineBroken,
    EngineError,
    Feature,
    OptimizerState,
    Piece,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.checkpoints.saved import read_checkpoint
from support_engines import HEADS, SUITE, Wrapped
from support_foreign_engines import write_folder
from support_refusals import refuses
from support_serving_engine import SmallEngine

BATCH: Final = TrainingBatch(((0, 17, 300, 17), (0, 5, 0, 0)), (((17, 300, 17, 1), (5, 1, -1, -1)),))
SETTINGS: Final = TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, 0.5, ("model.embed_tokens.weight",))
OTHER: Final = TrainingSettings(0.002, 0.5, 0.9, 1e-3, 0.0, None, ())


@pytest.fixture
def engine(tmp_path: Path) -> ReferenceEngine:
    """The model of a suite, in fast arithmetic."""
    return loaded(tmp_path / "model")


def loaded(folder: Path, suite: str = SUITE, made: ReferenceEngine | None = None) -> ReferenceEngine:
    """Return the reference with the model of a suite."""
    made = ReferenceEngine(FAST) if made is None else made
    made.load(write_folder(folder, suite))
    return made


def trained(engine: ReferenceEngine, directory: Path, steps: int = 2) -> Path:
    """Take some steps, and save."""
    engine.start_training(SETTINGS)
    for _ in range(steps):
        engine.train_step(BATCH)
    directory.mkdir()
    engine.save_training(directory)
    return directory


def bits(state: OptimizerState) -> list[bytes]:
    """Return all tensors, the weights first."""
    return [value.tobytes() for part in vars(state).values() for _, value in sorted(part.items())]


def refused(call: Callable[[], object]) -> str:
    """Return why a call is refused."""
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value)


class TestTheReferencesFile:
    """It is a checkpoint of the reference, and nothing else lies beside it."""

    def test_it_holds_steps_settings_and_moments(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """By the reference's own reading of it; the weights are those that are shown."""
        directory = trained(engine, tmp_path / "saved")
        assert [FILE] == [path.name for path in directory.iterdir()]
        state = read_checkpoint((directory / FILE).read_bytes())
        assert 2 == state.step == state.optimizer.step
        assert (0.9 * 0.9, 0.99 * 0.99) == (state.optimizer.beta1_power, state.optimizer.beta2_power)
        assert (0.01, 0.1, 0.5) == (
            state.setup.optimizer.learning_rate,
            state.setup.optimizer.weight_decay,
            state.setup.maximum_norm,
        )
        assert ("token_embedding.weight",) == state.setup.groups.decay
        shown = engine.training_state().weights["model.embed_tokens.weight"]
        assert np.array_equal(state.values["token_embedding.weight"], shown)

    def test_another_engine_goes_on_from_it(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """With a training of its own begun or not; the steps that follow have the same bits."""
        directory = trained(engine, tmp_path / "saved")
        before, losses = bits(engine.training_state()), [engine.train_step(BATCH) for _ in range(2)]
        after = bits(engine.training_state())
        for begun in (False, True):
            fresh = loaded(tmp_path / "model")
            if begun:
                fresh.start_training(OTHER)
                fresh.train_step(BATCH)
            fresh.resume_training(directory)
            assert before == bits(fresh.training_state())
            assert losses == [fresh.train_step(BATCH) for _ in range(2)]
            assert after == bits(fresh.training_state())

    def test_before_the_first_step_there_is_something_to_save(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """Moments are zero then."""
        directory = trained(engine, tmp_path / "saved", steps=0)
        loss = engine.train_step(BATCH)
        engine.resume_training(directory)
        assert not any(value.any() for value in engine.training_state().first_moments.values())
        assert loss == engine.train_step(BATCH)

    def test_slots_are_empty_after_resuming(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """They held rows of other weights."""
        directory = trained(engine, tmp_path / "saved")
        engine.evaluate([Piece(0, 0, (0, 5), ())])
        engine.resume_training(directory)
        engine.evaluate([Piece(0, 7, (5,), ())])


class TestRefusals:
    """Nothing is changed by what is refused."""

    def test_what_is_no_checkpoint(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """Nothing there, a file that is cut, one with a byte changed; a slot goes on afterwards."""
        directory = trained(engine, tmp_path / "saved")
        data = (directory / FILE).read_bytes()
        engine.train_step(BATCH)
        before = bits(engine.training_state())
        engine.evaluate([Piece(0, 0, (0, 5), ())])
        reasons = [refused(lambda: engine.resume_training(tmp_path / "nowhere"))]
        for damaged in (data[: len(data) // 2], data[:-40] + b"\1" + data[-39:]):
            (directory / FILE).write_bytes(damaged)
            reasons.append(refused(lambda: engine.resume_training(directory)))
        assert before == bits(engine.training_state())
        engine.evaluate([Piece(0, 2, (5,), ())])
        for reason, words in zip(reasons, ("No such file", "not a whole safetensors", "SHA-256"), strict=True):
            assert words in reason

    def test_a_checkpoint_of_something_else(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """Of another model, and of another arithmetic."""
        directory = trained(engine, tmp_path / "saved")
        strict = loaded(tmp_path / "model", made=ReferenceEngine(STRICT))
        assert "arithmetic" in refused(lambda: strict.resume_training(directory))
        other = loaded(tmp_path / "other", HEADS)
        assert "configuration" in refused(lambda: other.resume_training(directory))
        assert "no training was started" in refused(other.training_state)

    def test_what_cannot_be_saved(self, engine: ReferenceEngine, tmp_path: Path) -> None:
        """No training, or no directory."""
        assert "no training was started" in refused(lambda: engine.save_training(tmp_path))
        engine.start_training(SETTINGS)
        assert "cannot be written" in refused(lambda: engine.save_training(tmp_path / "nowhere"))
        assert "no model" in refused(lambda: ReferenceEngine(FAST).resume_training(tmp_path))


class Foreign(Wrapped):
    """An engine that lists checkpoints, and does something of its own."""

    def __init__(self, saves: Callable[[], object]) -> None:
        super().__init__()
        self._saves = saves

    def save_training(self, directory: Path) -> SavedTraining:
        """Do it."""
        return self._saves()  # type: ignore[return-value]

    def resume_training(self, directory: Path) -> None:
        """Crash."""
        raise RuntimeError("a file is cut")


class TestForeignObjects:
    """They are guarded as in everything else."""

    def test_the_feature_needs_both_methods_and_has_to_be_listed(self) -> None:
        """One that lists it without them does not offer it."""
        assert checkpointing(GuardedEngine(SmallEngine())) is None
        whole = GuardedEngine(Foreign(SavedTraining))
        assert checkpointing(whole) is whole
        whole.description = replace(whole.description, features=frozenset({Feature.TRAIN}))
        assert checkpointing(whole) is None

    def test_what_they_do_wrong_has_a_name(self, tmp_path: Path) -> None:
        """An answer of another type, and a crash."""
        with refuses(EngineError, "answer-out-of-shape", match="the type NoneType where SavedTraining"):
            GuardedEngine(Foreign(lambda: None)).save_training(tmp_path)
        with pytest.raises(EngineBroken, match="crashed in resume_training: RuntimeError: a file is cut"):
            GuardedEngine(Foreign(SavedTraining)).resume_training(tmp_path)
