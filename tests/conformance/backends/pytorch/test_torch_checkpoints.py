"""Checkpoints of the PyTorch engine: bit for bit, in every format, or refused with nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from cai_conformance.engine import OptimizerState, Refused, TrainingBatch, TrainingSettings

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]

TIED: Final = "llama.gqa-window"
BATCH: Final = TrainingBatch(((0, 17, 300, 17), (0, 5, 0, 0)), (((17, 300, 17, 1), (5, 1, -1, -1)),))
SETTINGS: Final = TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, 0.5, ("model.embed_tokens.weight",))
OTHER: Final = TrainingSettings(0.002, 0.5, 0.9, 1e-3, 0.0, None, ())


def bits(state: OptimizerState) -> list[bytes]:
    """Return all tensors, the weights first."""
    return [value.tobytes() for part in vars(state).values() for _, value in sorted(part.items())]


def saved(engine: TorchEngine, directory: Path) -> Path:
    """Take two steps, and save."""
    engine.start_training(SETTINGS)
    for _ in range(2):
        engine.train_step(BATCH)
    assert engine.save_training(directory).checksums
    return directory


class TestCheckpoints:
    """Two steps, a checkpoint, and two more are four steps."""

    @pytest.mark.parametrize(
        "precision",
        ["float64", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("float32", "bfloat16"))],
    )
    def test_it_goes_on_bit_for_bit(self, engine: TorchEngine, folder: Folder, tmp_path: Path, precision: str) -> None:
        """After another training with other settings, and after the model was loaded anew."""
        engine.load(folder(TIED), precision)
        directory = saved(engine, tmp_path)
        assert {"training.pt", "training.json"} == {path.name for path in directory.iterdir()}
        before, losses = bits(engine.training_state()), [engine.train_step(BATCH) for _ in range(2)]
        after = bits(engine.training_state())
        for again in (False, True):
            if again:
                engine.load(folder(TIED), precision)
            else:
                engine.start_training(OTHER)
                engine.train_step(BATCH)
            engine.resume_training(directory)
            assert before == bits(engine.training_state())
            assert losses == [engine.train_step(BATCH) for _ in range(2)]
            assert after == bits(engine.training_state())

    def test_what_is_damaged_is_refused_and_nothing_changes(
        self, engine: TorchEngine, folder: Folder, tmp_path: Path
    ) -> None:
        """A file that is cut or missing, a byte, a digest; and a checkpoint in another format."""
        engine.load(folder(TIED))
        directory = saved(engine, tmp_path)
        engine.train_step(BATCH)
        before = bits(engine.training_state())
        whole = {path: path.read_bytes() for path in directory.iterdir()}
        for path, data in whole.items():
            middle = len(data) // 2
            for damaged in (data[:middle], data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], None):
                path.unlink() if damaged is None else path.write_bytes(damaged)
                with pytest.raises(Refused):
                    engine.resume_training(directory)
                path.write_bytes(data)
        assert before == bits(engine.training_state())
        engine.load(folder(TIED), "float32")
        with pytest.raises(Refused, match="another model, or in another format"):
            engine.resume_training(directory)

    def test_a_seal_over_something_else_is_no_checkpoint(
        self, engine: TorchEngine, folder: Folder, tmp_path: Path
    ) -> None:
        """The digest is right, and what it is of is no training; nor is there one before it has begun."""
        engine.load(folder(TIED))
        with pytest.raises(Refused, match="training has not begun"):
            engine.save_training(tmp_path)
        (tmp_path / "training.pt").write_bytes(b"")
        (tmp_path / "training.json").write_text(
            json.dumps({"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"})
        )
        with pytest.raises(Refused, match=r"training\.pt cannot be read"):
            engine.resume_training(tmp_path)
