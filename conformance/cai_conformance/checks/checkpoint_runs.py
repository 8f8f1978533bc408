"""The trainings that checks of checkpoints share, how two of them are compared, and what may happen to a checkpoint.

One training in a row, another one beside it, and one that was saved; each begins on the model as it is in its folder.
Clipping is active, decay and epsilon are large. The training beside it has other settings and other batches, so that
nothing of it is right for the first one. What two trainings left is compared by its bits, unless the engine says that
chance moves them: then the floor of each part is measured, one training in a row, and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import hypot, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from cai_conformance.checks.optimizer import record_of, tensor_difference
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.training_rows import rows_of
from cai_conformance.checks.tolerance.policy import FACTOR, PolicyKind
from cai_conformance.checks.tolerance.training import (
    FIRST_MOMENT,
    LEAST_FLOOR,
    LOSS,
    MOST_FLOOR,
    MOST_PART,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
    rounding_units,
)
from cai_conformance.engine import (
    MANTISSA_BITS,
    CheckpointingEngine,
    EngineError,
    LossAndGradients,
    Nondeterminism,
    OptimizerState,
    TrainingBatch,
    TrainingEngine,
    TrainingSettings,
)
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic import Array

CUT, MISSING, RENAMED, FLIPPED = "cut", "missing", "renamed", "flipped"
CASES: Final = (CUT, MISSING, RENAMED, FLIPPED)
MOST_FILES: Final = 8
"""How many files are damaged, the largest first."""
BIT: Final = 0x10
"""Which bit of a byte changes."""
PLACES: Final = (2, 1, 3)
"""Where a byte of the largest file changes, in quarters of it; in the others at the first of these."""


@dataclass(frozen=True)
class Damage:
    """One damage: what was done, in words, and the files as they are then."""

    words: str
    files: Mapping[str, bytes]


def damages(case: str, files: Mapping[str, bytes]) -> Iterator[Damage]:
    """Yield the damages of a case; each changes the bytes or the names of files."""
    names = sorted(files, key=lambda name: (-len(files[name]), name))[:MOST_FILES]
    for place, name in enumerate(names):
        data, others = files[name], {other: value for other, value in files.items() if other != name}
        if case == CUT and data:
            half = len(data) // 2
            yield Damage(f"{name} cut to {half} of {len(data)} bytes", {**others, name: data[:half]})
            if half and not place:
                yield Damage(f"{name} emptied", {**others, name: b""})
        elif case == MISSING:
            yield Damage(f"{name} missing", others)
        elif case == RENAMED and not place:
            yield Damage(f"{name} called {name}.old", {**others, f"{name}.old": data})
        elif case == FLIPPED and data:
            for quarters in PLACES if not place else PLACES[:1]:
                at = len(data) * quarters // 4
                changed = data[:at] + bytes([data[at] ^ BIT]) + data[at + 1 :]
                yield Damage(f"a bit of byte {at} of {name} changed", {**others, name: changed})
    if case == MISSING and len(files) > 1:
        yield Damage("all files missing", {})


@dataclass(frozen=True)
class After:
    """What a step left.

    Attributes:
        step: from 1.
        loss: before the step; None where only the state is known.
        state: weights and moments.
    """

    step: int
    loss: float | None
    state: OptimizerState

    @property
    def parts(self) -> Iterator[TrainingPart]:
        """The loss if it is known, weights, and both moments."""
        if self.loss is not None:
            yield TrainingPart(self.step, LOSS, {LOSS: np.array([self.loss])})
        state = self.state
        for kind, tensors in (
            (WEIGHTS, state.weights),
            (FIRST_MOMENT, state.first_moments),
            (SECOND_MOMENT, state.second_moments),
        ):
            yield TrainingPart(self.step, kind, dict(tensors))


@dataclass(frozen=True)
class Tolerance:
    """By how much parts may differ: not at all, or by some of their floors.

    Attributes:
        precision: the format whose units are counted.
        floors: in `rounding_units`, by step and kind; empty where bits are compared.
        factor: how many of them are allowed.
    """

    precision: str
    floors: Mapping[tuple[int, str], float] = field(default_factory=dict)
    factor: float = FACTOR

    @property
    def words(self) -> str:
        """How things were compared."""
        return "within the measured rounding" if self.floors else "in every bit"

    def difference(self, right: After, found: After) -> Difference | None:
        """Return the first thing that differs; a loss that either side does not know is not looked at."""
        others = {part.kind: part for part in found.parts}
        for part in right.parts:
            if part.kind in others:
                different = self._of_part(part, others[part.kind])
                if different is not None:
                    return different
        return None

    def _of_part(self, right: TrainingPart, found: TrainingPart) -> Difference | None:
        floor = self.floors.get((right.step, right.kind))
        units = {} if floor is None else rounding_units(right, self.precision)
        for name in [*right.tensors, *(name for name in found.tensors if name not in right.tensors)]:
            record = record_of(right, name)
            if name not in found.tensors or name not in right.tensors:
                return Difference(Problem.MISSING if name not in found.tensors else Problem.EXTRA, record)
            value, other = right.tensors[name], found.tensors[name]
            if value.shape != other.shape:
                shapes = f"shape {list(value.shape)}", f"shape {list(other.shape)}"
                return Difference(Problem.SHAPE, record, "", None, *shapes)
            index = _first(value, other, 0.0 if floor is None else self.factor * floor * units[name])
            if index is not None:
                return tensor_difference(right, name, index, float(other.flat[index]))
        return None


def exact(precision: str) -> Tolerance:
    """Return that no bit may differ."""
    return Tolerance(precision)


def measured(runs: Sequence[Sequence[After]], precision: str) -> Tolerance:
    """Return what differs between equal trainings, the first of which is held against the others."""
    floors: dict[tuple[int, str], float] = {}
    most = min(MOST_FLOOR, MOST_PART * 2.0 ** MANTISSA_BITS[precision])
    for place, after in enumerate(runs[0]):
        for part in after.parts:
            units, floor = rounding_units(part, precision), LEAST_FLOOR
            for run in runs[1:]:
                other = next(each for each in run[place].parts if each.kind == part.kind)
                floor = max(floor, *(_distance(part, other, name) / units[name] for name in part.tensors))
            floors[after.step, part.kind] = min(floor, most)
    return Tolerance(precision, floors)


def moved(before: OptimizerState, after: OptimizerState) -> int:
    """Return how many tensors of weights differ."""
    return sum(
        name not in after.weights or value.tobytes() != after.weights[name].tobytes()
        for name, value in before.weights.items()
    )


def with_moments(state: OptimizerState) -> int:
    """Return how many tensors have both moments, neither of them nothing but zeros."""
    second = state.second_moments
    return sum(
        bool(value.any()) and name in second and bool(second[name].any()) for name, value in state.first_moments.items()
    )


def _distance(part: TrainingPart, other: TrainingPart, name: str) -> float:
    """Return the largest distance of a tensor; 0 where it is no number, which fails by itself."""
    if name not in other.tensors or other.tensors[name].shape != part.tensors[name].shape:
        return 0.0
    distances = np.abs(part.tensors[name] - other.tensors[name])
    return float(np.max(distances, initial=0.0, where=np.isfinite(distances)))


def _first(value: Array, other: Array, allowed: float) -> int | None:
    """Return the place of the first number that is another one, row by row; None if there is none."""
    if value.tobytes() == other.tobytes():
        return None
    if allowed > 0.0:
        wrong = ~(np.abs(value - other) <= allowed)
    else:
        wrong = np.ascontiguousarray(value).view(np.uint64) != np.ascontiguousarray(other).view(np.uint64)
    return int(np.argmax(wrong)) if bool(wrong.any()) else None


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
        EngineError (answer-out-of-shape): there are none, or there is something else than plain files.
    """
    paths = sorted(path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    strange = next((path for path in paths if path.is_symlink() or not path.is_file()), None)
    if strange is not None:
        raise EngineError(
            "answer-out-of-shape", engine=engine, found=f"a checkpoint with {strange.name}", wanted="plain files"
        )
    if not paths:
        raise EngineError("answer-out-of-shape", engine=engine, found="an empty directory", wanted="a checkpoint")
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
