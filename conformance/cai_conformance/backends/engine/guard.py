"""A foreign Python object as an engine: whatever it does wrong becomes an error with its name.

It has the methods of all features; those that the object lists, but has no methods for, are taken from its description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from cai_conformance.backends.errors import one_line
from cai_conformance.engine import (
    PRECISIONS,
    Description,
    Engine,
    EngineBroken,
    EngineError,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    OptimizerState,
    Piece,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import named

Value = TypeVar("Value")

METHODS: Final[Mapping[Feature, tuple[str, ...]]] = {
    Feature.DROP: ("drop",),
    Feature.COPY: ("copy",),
    Feature.GENERATE: ("generate",),
    Feature.TRAIN: ("gradients", "start_training", "train_step", "training_state"),
    Feature.CHECKPOINT: ("save_training", "resume_training"),
    Feature.POISON: ("poison",),
    Feature.FAIL_AFTER: ("fail_after",),
}
"""What an object must have to offer a feature."""


class GuardedEngine:
    """An engine around a foreign object.

    Args:
        engine: the object.

    Raises:
        EngineBroken: it does not describe itself as an engine does.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sizes: tuple[int, int] | None = None
        self._name = type(engine).__name__
        self.description = self._call("its description", lambda: _checked(engine))
        self._name = self.description.name

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder."""
        self._sizes = None
        return self._typed(Loaded, "load", folder, precision)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces; raises `answer-out-of-shape` where answers are not of the shape that was asked for."""
        found = self._call("evaluate", lambda: tuple(self._engine.evaluate(pieces, observe=observe)))
        if len(found) != len(pieces):
            raise EngineError(
                "answer-out-of-shape", engine=self._name, found=f"{len(found)} pieces", wanted=f"{len(pieces)}"
            )
        answers = self._call("its answers", lambda: tuple(map(_widened, found)))
        for piece, answer in zip(pieces, answers, strict=True):
            self._check(answer.logits.shape, len(piece.wanted))
        return answers

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self._call("clear", lambda: self._engine.clear(slot))

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget positions of a slot."""
        self._named("drop", slot, first, last)

    def copy(self, source: int, target: int) -> None:
        """Copy a slot."""
        self._named("copy", source, target)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate by the object's own loop."""
        found = self._typed(Generated, "generate", order)
        return self._call("its tokens", lambda: replace(found, ids=tuple(int(token) for token in found.ids)))

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients."""
        found = self._typed(LossAndGradients, "gradients", batch)
        return self._call("its gradients", lambda: LossAndGradients(float(found.loss), _arrays(found.gradients)))

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments."""
        self._named("start_training", settings)

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step."""
        found = self._named("train_step", batch)
        return self._call("its loss", lambda: float(np.asarray(found, dtype=np.float64)))

    def training_state(self) -> OptimizerState:
        """Return what the last step left."""
        found = self._typed(OptimizerState, "training_state")
        tensors = found.weights, found.first_moments, found.second_moments
        return self._call("its state", lambda: OptimizerState(*map(_arrays, tensors)))

    def save_training(self, directory: Path) -> SavedTraining:
        """Write a training."""
        found = self._typed(SavedTraining, "save_training", directory)
        return self._call("what it says of a checkpoint", lambda: SavedTraining(bool(found.checksums)))

    def resume_training(self, directory: Path) -> None:
        """Go on from a training that was written."""
        self._named("resume_training", directory)

    def poison(self, value: float) -> None:
        """Fill memory that no position owns."""
        self._named("poison", value)

    def fail_after(self, layers: int) -> None:
        """Fail in the next call."""
        self._named("fail_after", layers)

    def close(self) -> None:
        """Let go of everything."""
        self._call("close", self._engine.close)

    def _check(self, shape: tuple[int, ...], rows: int) -> None:
        """Compare a shape with what was asked for, and with the heads and ids of the model so far."""
        heads, vocabulary = self._sizes or ("heads", "vocabulary")
        fits = len(shape) == 3 and min(shape[0], shape[2]) > 0 and shape[1] == rows
        if not fits or self._sizes not in (None, (shape[0], shape[2])):
            wanted = f"[{heads}, {rows}, {vocabulary}]"
            raise EngineError(
                "answer-out-of-shape", engine=self._name, found=f"logits of shape {list(shape)}", wanted=wanted
            )
        self._sizes = shape[0], shape[2]

    def _typed(self, kind: type[Value], method: str, *arguments: object) -> Value:
        found = self._named(method, *arguments)
        if not isinstance(found, kind):
            raise EngineError(
                "answer-out-of-shape",
                engine=self._name,
                found=f"an object of the type {type(found).__name__}",
                wanted=kind.__name__,
            )
        return found

    def _named(self, method: str, *arguments: object) -> object:
        return self._call(method, lambda: getattr(self._engine, method)(*arguments))

    def _call(self, what: str, call: Callable[[], Value]) -> Value:
        try:
            return call()
        except EngineError:
            raise
        except (Exception, SystemExit) as error:
            raise EngineBroken(self._name, f"crashed in {what}: {one_line(error)}") from error


class Starting:
    """Starts guarded engines: the one that is there already, then others from what makes them.

    Args:
        name: what errors call an engine that cannot be started.
        first: an engine that is there; None for none.
        make: makes another one; None where there is but the first, which is then returned again.
    """

    def __init__(self, name: str, first: Engine | None, make: Callable[[], Engine] | None) -> None:
        self._name, self._first, self._make = name, first, make

    def __call__(self) -> Engine:
        """Return an engine.

        Raises:
            EngineError: there is none.
        """
        found = self._first
        if self._make is not None:
            self._first = None
        return GuardedEngine(self._made() if found is None else found)

    def _made(self) -> Engine:
        assert self._make is not None
        try:
            return self._make()
        except EngineError:
            raise
        except (Exception, SystemExit) as error:
            raise EngineBroken(self._name, f"cannot be started: {one_line(error)}") from error


def _checked(engine: Engine) -> Description:
    """Return a description without the features that the object has no methods for.

    Raises:
        ValueError: a format or the number of slots is none.
        CaiReferenceError: the arithmetic has another name.
    """
    stated = engine.description
    if not isinstance(stated, Description):
        raise ValueError(f"it is of the type {type(stated).__name__}, not Description")
    for name in (*vars(stated.precision).values(), *stated.precisions):
        if name not in PRECISIONS:
            raise ValueError(f"the format {name!r} is none of {', '.join(PRECISIONS)}")
    if stated.arithmetic not in PRECISIONS:
        named(stated.arithmetic)
    if stated.slots < 1:
        raise ValueError(f"{stated.slots} slots")
    lacking = {
        feature for feature, methods in METHODS.items() if not all(callable(getattr(engine, m, None)) for m in methods)
    }
    features = frozenset(stated.features) - lacking
    return replace(stated, features=features, arms=stated.arms if Feature.GENERATE in features else frozenset())


def _widened(answer: Evaluated) -> Evaluated:
    return Evaluated(np.asarray(answer.logits, dtype=np.float64), _arrays(answer.stages))


def _arrays(tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {str(name): np.asarray(value, dtype=np.float64) for name, value in tensors.items()}
