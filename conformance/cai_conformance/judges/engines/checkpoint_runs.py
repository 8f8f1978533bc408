"""The trainings that judges of checkpoints share: one in a row, another one beside it, and one that was saved.

Each begins on the model as it is in its folder. Clipping is active, decay and epsilon are large. The training beside
it has other settings and other batches, so that nothing of it is right for the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import hypot, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from cai_conformance.engines.checkpointing import CheckpointingEngine
from cai_conformance.engines.description import Nondeterminism
from cai_conformance.engines.errors import AnswerOutOfShape
from cai_conformance.engines.training import LossAndGradients, TrainingBatch, TrainingEngine, TrainingSettings
from cai_conformance.judges.engines.checkpoint_comparing import After, Tolerance, exact, measured
from cai_conformance.judges.engines.training_batches import rows_of
from cai_conformance.measuring.policy import PolicyKind
from cai_conformance.probing.probe import Probe

ROWS: Final = ((0, 1, 2), (3, 4), (1, 3), (0, 2, 4))
"""The rows of the batch of each step."""
OTHERS: Final = ((4, 1), (2, 3))
"""Those of the training beside it."""
SAVED_AFTER: Final = 2
RATE, BETA_1, BETA_2, EPSILON, DECAY = 0.01, 0.9, 0.99, 1e-4, 0.1
LIMIT: Final = 4.0
"""How often the first gradient's norm exceeds the limit, so that later ones do, too."""
OTHER: Final = TrainingSettings(0.003, 0.5, 0.9, 1e-3, 0.0, None, ())
CHANCES: Final = 2
"""How often a training is repeated where chance moves its bits."""
MOST_BYTES: Final = 1 << 30
"""Of a checkpoint that is read, damaged and written anew."""


@dataclass(frozen=True)
class Straight:
    """A training in a row.

    Attributes:
        steps: what each left.
        clipped: in how many of them the gradients were longer than the limit.
        head_rows: how many rows of the table of ids had a gradient in the first step behind the checkpoint, although
            no input read them: the head's part, if the two are tied.
    """

    steps: tuple[After, ...]
    clipped: int
    head_rows: int


@dataclass(frozen=True)
class Checkpoint:
    """What an engine wrote, by relative paths; what it claims; and what it showed then and a step later."""

    files: Mapping[str, bytes]
    checksums: bool
    saved: After
    later: After


@dataclass(frozen=True)
class CheckpointRuns:
    """Drives one engine under probe.

    Attributes:
        probe: the model.
        trainer, saver: the engine, which offers both.
    """

    probe: Probe
    trainer: TrainingEngine
    saver: CheckpointingEngine

    def straight(self) -> Straight:
        """Return the training in a row, which is never saved."""
        return self.probe.memory.remembered("training in a row", self._straight)

    def beside(self) -> tuple[After, ...]:
        """Return the steps of the other training."""
        return self.probe.memory.remembered("training beside", self._beside)

    def checkpoint(self) -> Checkpoint | None:
        """Return what was saved on the way; None where that is too much to be handled here."""
        return self.probe.memory.remembered("checkpoint", self._checkpoint)

    def tolerance(self) -> Tolerance:
        """Return by how much a training may differ from another one of the same steps."""
        return self.probe.memory.remembered("tolerance of trainings", self._tolerance)

    def begin(self) -> None:
        """Begin the training."""
        self._begin(self.settings)

    def begin_beside(self) -> After:
        """Begin the other training, take its first step, and return what that left."""
        self._begin(OTHER)
        return self.step_beside(1)

    def load(self) -> None:
        """Load the model anew; no training has begun."""
        self.probe.model.forget()
        self.probe.model.load()

    def step(self, number: int) -> After:
        """Take a step, from 1, and return what it left."""
        return self._step(number, self._batch(ROWS, number))

    def step_beside(self, number: int) -> After:
        """Take a step of the other training."""
        return self._step(number, self._batch(OTHERS, number))

    def state(self, number: int) -> After:
        """Return what a step left, as it is shown now."""
        return After(number, None, self.trainer.training_state())

    def resume(self, files: Mapping[str, bytes]) -> None:
        """Let the engine go on from files, in a directory where it has written nothing."""
        with _directory(files) as directory:
            self.saver.resume_training(directory)

    @property
    def settings(self) -> TrainingSettings:
        """The settings: matrices decay, and gradients are clipped at a part of the first one's norm."""
        return self.probe.memory.remembered("settings of checkpoints", self._settings)

    def _settings(self) -> TrainingSettings:
        self.load()
        first = self.trainer.gradients(self._batch(ROWS, 1))
        decayed = tuple(sorted(name for name, value in first.gradients.items() if value.ndim > 1))
        norm = _norm(first)
        clip = norm / LIMIT if isfinite(norm) and norm > 0.0 else None
        return TrainingSettings(RATE, BETA_1, BETA_2, EPSILON, DECAY, clip, decayed)

    def _straight(self) -> Straight:
        self.begin()
        steps, clipped, head_rows = list[After](), 0, 0
        for number in range(1, len(ROWS) + 1):
            batch = self._batch(ROWS, number)
            found = self.trainer.gradients(batch)
            clipped += self.settings.clip is not None and _norm(found) > self.settings.clip
            if number == SAVED_AFTER + 1:
                head_rows = _unread_rows(found, batch, self.probe.vocabulary)
            steps.append(self._step(number, batch))
        return Straight(tuple(steps), clipped, head_rows)

    def _beside(self) -> tuple[After, ...]:
        return (self.begin_beside(), *(self.step_beside(number) for number in range(2, len(OTHERS) + 1)))

    def _checkpoint(self) -> Checkpoint | None:
        self.begin()
        for number in range(1, SAVED_AFTER + 1):
            self.step(number)
        with TemporaryDirectory(prefix="cai-conform-") as name:
            directory = Path(name)
            stated = self.saver.save_training(directory)
            saved, later = self.state(SAVED_AFTER), self.step(SAVED_AFTER + 1)
            files = _read(directory, self.probe.description.name)
        return None if files is None else Checkpoint(files, stated.checksums, saved, later)

    def _tolerance(self) -> Tolerance:
        description = self.probe.description
        precision, policy = description.precision.coarsest, self.probe.policy
        if description.nondeterminism is not Nondeterminism.RUN or policy.kind is PolicyKind.EXACT:
            return exact(precision)
        straight = self.straight().steps
        if policy.kind is PolicyKind.ULP:
            floors = {(after.step, part.kind): policy.ulps for after in straight for part in after.parts}
            return Tolerance(precision, floors, 1.0)
        return measured([straight, *(self._straight().steps for _ in range(CHANCES))], precision)

    def _begin(self, settings: TrainingSettings) -> None:
        self.load()
        self.trainer.start_training(settings)

    def _step(self, number: int, batch: TrainingBatch) -> After:
        loss = self.trainer.train_step(batch)
        return After(number, loss, self.trainer.training_state())

    def _batch(self, rows: tuple[tuple[int, ...], ...], number: int) -> TrainingBatch:
        return rows_of(self.probe).batch(*rows[number - 1])


def _norm(found: LossAndGradients) -> float:
    return hypot(*(float(np.linalg.norm(value)) for value in found.gradients.values()))


def _unread_rows(found: LossAndGradients, batch: TrainingBatch, vocabulary: int) -> int:
    """Count the rows of tables [vocabulary, …] with a gradient whose ids no input has."""
    read = {token for row in batch.inputs for token in row}
    unread = [token for token in range(vocabulary) if token not in read]
    tables = [value for value in found.gradients.values() if value.ndim == 2 and value.shape[0] == vocabulary]
    return sum(int(np.count_nonzero(value[unread].any(axis=1))) for value in tables)


def _read(directory: Path, engine: str) -> dict[str, bytes] | None:
    """Return all files below a directory, by relative paths; None where they are too large.

    Raises:
        AnswerOutOfShape: there are none, or there is something else than plain files.
    """
    paths = sorted(path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    strange = next((path for path in paths if path.is_symlink() or not path.is_file()), None)
    if strange is not None:
        raise AnswerOutOfShape(engine, f"a checkpoint with {strange.name}", "plain files")
    if not paths:
        raise AnswerOutOfShape(engine, "an empty directory", "a checkpoint")
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        return None
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


@contextmanager
def _directory(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files into a directory that is gone afterwards."""
    with TemporaryDirectory(prefix="cai-conform-") as name:
        directory = Path(name)
        for path, data in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(data)
        yield directory
