"""A small engine that trains and writes checkpoints, right or wrong in one way: a table, a vector, AdamW, files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from cai_conformance.engine import (
    Description,
    Evaluated,
    Feature,
    Loaded,
    LossAndGradients,
    Nondeterminism,
    OptimizerState,
    Piece,
    Precision,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_reference.arithmetic import Array

VOCABULARY: Final = 320
WEIGHTS, MOMENTS, NOTE = "weights.bin", "moments.bin", "note.txt"
"""The files; nobody reads the last one."""
Tensors = dict[str, Array]


class SmallTrainer:
    """The loss is half the squared sum of what the inputs, the targets and all ids have in the table and the vector.

    Args:
        checksums: whether it writes and compares digests, and says so.
        chance: by how much each step moves a weight by chance.
        written: changes what stands in the directory after saving.
        resumed: takes the place of resuming.
        stated: of the description.
    """

    def __init__(
        self,
        *,
        checksums: bool = True,
        chance: float = 0.0,
        written: Callable[[SmallTrainer, Path], None] | None = None,
        resumed: Callable[[SmallTrainer, Path], None] | None = None,
        features: frozenset[Feature] = frozenset({Feature.TRAIN, Feature.CHECKPOINT}),
    ) -> None:
        self.description = Description(
            "small",
            "1",
            "float64",
            Precision.uniform("float64"),
            nondeterminism=Nondeterminism.RUN if chance else Nondeterminism.NONE,
            features=features,
        )
        self._checksums, self._chance = checksums, chance
        self._written, self._resumed = written, resumed
        self._random = np.random.default_rng(5)
        self.weights: Tensors = {}
        self.first: Tensors = {}
        self.second: Tensors = {}
        self.count = 0
        self.settings: TrainingSettings | None = None

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Begin with the same weights, whatever the folder."""
        table = np.sin(np.arange(VOCABULARY * 2.0)).reshape(VOCABULARY, 2)
        self.weights, self.settings = {"table": table, "vector": np.array([0.5, -0.25])}, None
        return Loaded(context=64)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Return logits of the right shape."""
        return tuple(Evaluated(np.zeros((1, len(piece.wanted), VOCABULARY))) for piece in pieces)

    def clear(self, slot: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients."""
        ids = [token for row in (*batch.inputs, *batch.targets[0]) for token in row if token >= 0]
        counts = np.bincount(ids, minlength=VOCABULARY) + 0.125
        table, vector = self.weights["table"], self.weights["vector"]
        total = float(counts @ table @ vector) / len(ids)
        scale = total / len(ids)
        return LossAndGradients(
            0.5 * total * total, {"table": scale * np.outer(counts, vector), "vector": scale * (counts @ table)}
        )

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments."""
        self.settings, self.count = settings, 0
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step."""
        assert self.settings is not None
        settings, found = self.settings, self.gradients(batch)
        norm = float(np.sqrt(sum(float(np.sum(value * value)) for value in found.gradients.values())))
        factor = 1.0 if settings.clip is None or norm <= settings.clip else settings.clip / norm
        self.count += 1
        for name, value in found.gradients.items():
            gradient = value * factor
            self.first[name] = settings.beta1 * self.first[name] + (1 - settings.beta1) * gradient
            self.second[name] = settings.beta2 * self.second[name] + (1 - settings.beta2) * gradient**2
            mean = self.first[name] / (1 - settings.beta1**self.count)
            root = np.sqrt(self.second[name] / (1 - settings.beta2**self.count))
            decay = settings.weight_decay if name in settings.decayed else 0.0
            step = settings.learning_rate * (mean / (root + settings.epsilon) + decay * self.weights[name])
            noise = 1.0 + self._chance * self._random.standard_normal(value.shape) if self._chance else 1.0
            self.weights[name] = (self.weights[name] - step) * noise
        return found.loss

    def training_state(self) -> OptimizerState:
        """Return what the last step left."""
        return OptimizerState(dict(self.weights), dict(self.first), dict(self.second))

    def save_training(self, directory: Path) -> SavedTraining:
        """Write three files."""
        assert self.settings is not None
        weights = _bytes(self.weights)
        head = json.dumps({"count": self.count, "settings": asdict(self.settings), "weights": _digest(weights)})
        moments = _bytes(self.first) + _bytes(self.second)
        (directory / WEIGHTS).write_bytes(weights)
        sealed = f"{head}\n".encode() + moments
        (directory / MOMENTS).write_bytes(_digest(sealed).encode() + sealed)
        (directory / NOTE).write_bytes(b"written by the small engine")
        if self._written is not None:
            self._written(self, directory)
        return SavedTraining(self._checksums)

    def resume_training(self, directory: Path) -> None:
        """Go on, or refuse."""
        if self._resumed is not None:
            self._resumed(self, directory)
            return
        self.resume(directory)

    def resume(self, directory: Path) -> None:
        """Go on, or refuse and change nothing."""
        try:
            weights, moments = ((directory / name).read_bytes() for name in (WEIGHTS, MOMENTS))
            digest, sealed = moments[:64].decode("ascii", "replace"), moments[64:]
            line, _, data = sealed.partition(b"\n")
            head = json.loads(line)
            values = _tensors(weights), _tensors(data[: len(data) // 2]), _tensors(data[len(data) // 2 :])
        except (OSError, ValueError) as error:
            raise Refused("small", "to resume", str(error)) from error
        if self._checksums and (digest != _digest(sealed) or head["weights"] != _digest(weights)):
            raise Refused("small", "to resume", "a digest is another one")
        self.weights, self.first, self.second = values
        self.count = head["count"]
        self.settings = TrainingSettings(**{**head["settings"], "decayed": tuple(head["settings"]["decayed"])})


def _bytes(tensors: Tensors) -> bytes:
    return tensors["table"].tobytes() + tensors["vector"].tobytes()


def _tensors(data: bytes) -> Tensors:
    values = np.frombuffer(data, np.float64).copy()
    if values.size != 2 * VOCABULARY + 2:
        raise ValueError(f"there are {values.size} numbers")
    return {"table": values[:-2].reshape(VOCABULARY, 2), "vector": values[-2:]}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
