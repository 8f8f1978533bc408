"""An engine that asks a program, as `serve-protocol.md` says."""

from __future__ import annotations

import shlex
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from cai_conformance.backends.serve.channel import Channel, Deadlines
from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object
from cai_conformance.backends.serve.messages import Fields, model_shapes, read_description, read_loaded
from cai_conformance.backends.serve.process import CLIENT, PROTOCOL
from cai_conformance.backends.serve.tensors import TensorReader, check_shapes, read_evaluated, write_pieces
from cai_conformance.backends.serve.training_messages import (
    check_generated,
    check_tensors,
    read_generated,
    read_gradients,
    read_loss,
    read_saved,
    read_state,
    write_batch,
    write_order,
    write_settings,
)
from cai_conformance.backends.serve.validation import Validator
from cai_conformance.engine import (
    Description,
    EngineBroken,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    OptimizerState,
    Piece,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import hex_bits

STOP_SECONDS: Final = 2.0
"""How long a program may take to end when it is asked to."""

_Read = TypeVar("_Read")


class ServeEngine:
    """A program behind the protocol.

    It has the methods of all features; of one that the program does not list, it raises `Refused` without asking. Once
    `EngineBroken` was raised, the program has been ended, and every further call raises it again.

    Attributes:
        farewell: after `close`, what was wrong with how the program ended; empty if nothing was.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        deadlines: Deadlines | None = None,
        validate: bool = False,
        name: str = "",
    ) -> None:
        """Start a program, and ask who it is.

        Args:
            command: a program with its arguments, as a list or as one would type it.
            deadlines: how long its answers may take.
            validate: whether every message is held against its JSON Schema, too.
            name: what errors call it; `serve:` and the command if empty.

        Raises:
            EngineBroken: it cannot be started, or does not answer as it should.
            BackendError (validator-missing): the library for `validate` is not installed.
        """
        words = shlex.split(command) if isinstance(command, str) else list(command)
        self.name = name or f"serve:{shlex.join(words)}"
        if not words:
            raise EngineBroken(self.name, "cannot be started: no program is named")
        self.farewell = ""
        self._validator = Validator() if validate else None
        self._folder: Path | None = None
        self._shapes: Mapping[str, tuple[int, ...]] | None = None
        self._sizes: tuple[int, int] | None = None
        self._scratch = TemporaryDirectory(prefix="cai-conform-serve-", ignore_cleanup_errors=True)
        try:
            self._channel = Channel(self.name, words, deadlines or Deadlines(), self._validator)
        except BaseException:
            self._scratch.cleanup()
            raise
        self._finalizer = weakref.finalize(self, _let_go, self._channel, self._scratch)
        try:
            self.description = self._start()
        except BaseException:
            self._finalizer()
            raise

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder."""
        self._folder, self._shapes, self._sizes = folder, None, None
        return self._ask("load", read_loaded, {"folder": str(folder.resolve()), "precision": precision})

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces; raises `answer-out-of-shape` where logits are not of the shape that was asked for."""
        if observe:
            self._needs(Feature.OBSERVE, "to observe")
        tensors = self._tensors()
        answers = self._ask(
            "evaluate",
            lambda answer: read_evaluated(answer, pieces, tensors, observe=observe),
            write_pieces(pieces, observe=observe),
        )
        self._sizes = check_shapes(self.name, answers, pieces, self._sizes)
        return answers

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self._ask("clear", _read_nothing, {"slot": slot})

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget positions of a slot."""
        self._needs(Feature.DROP, "drop")
        self._ask("drop", _read_nothing, {"slot": slot, "first": first, "last": last})

    def copy(self, source: int, target: int) -> None:
        """Copy a slot."""
        self._needs(Feature.COPY, "copy")
        self._ask("copy", _read_nothing, {"source": source, "target": target})

    def generate(self, order: GenerationOrder) -> Generated:
        """Let the program generate; raises `answer-out-of-shape` where it returns more than was asked for."""
        self._needs(Feature.GENERATE, "generate")
        if order.arm not in self.description.arms:
            raise Refused(self.name, f"the arm {order.arm}", "the program does not list it")
        generated = self._ask("generate", read_generated, write_order(order))
        check_generated(self.name, generated, order)
        return generated

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients; raises `answer-out-of-shape` where a tensor is not one of the model file's."""
        self._needs(Feature.TRAIN, "gradients")
        tensors = self._tensors()
        found = self._ask("gradients", lambda answer: read_gradients(answer, tensors), write_batch(batch))
        self._check_tensors(found.gradients)
        return found

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments."""
        self._needs(Feature.TRAIN, "start-training")
        self._ask("start-training", _read_nothing, write_settings(settings))

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step."""
        self._needs(Feature.TRAIN, "train-step")
        return self._ask("train-step", read_loss, write_batch(batch))

    def training_state(self) -> OptimizerState:
        """Return weights and moments; raises `answer-out-of-shape` where a tensor is not one of the model file's."""
        self._needs(Feature.TRAIN, "training-state")
        tensors = self._tensors()
        state = self._ask("training-state", lambda answer: read_state(answer, tensors))
        for found in (state.weights, state.first_moments, state.second_moments):
            self._check_tensors(found)
        return state

    def save_training(self, directory: Path) -> SavedTraining:
        """Write a training."""
        self._needs(Feature.CHECKPOINT, "save-training")
        return self._ask("save-training", read_saved, {"directory": str(directory.resolve())})

    def resume_training(self, directory: Path) -> None:
        """Go on from a training that was written."""
        self._needs(Feature.CHECKPOINT, "resume-training")
        self._ask("resume-training", _read_nothing, {"directory": str(directory.resolve())})

    def poison(self, value: float) -> None:
        """Fill memory that no position owns."""
        self._needs(Feature.POISON, "poison")
        self._ask("poison", _read_nothing, {"value": hex_bits(value)})

    def fail_after(self, layers: int) -> None:
        """Let the next `evaluate` fail."""
        self._needs(Feature.FAIL_AFTER, "fail-after")
        self._ask("fail-after", _read_nothing, {"layers": layers})

    def cancel(self) -> bool:
        """From another thread: ask that the present request be answered at once; tell whether there is one."""
        return self._channel.cancel()

    def close(self) -> None:
        """Ask the program to end, and see to it; how it ended stands in `farewell`."""
        if not self._finalizer.alive:
            return
        try:
            self.farewell = self._channel.stop(STOP_SECONDS)
        finally:
            self._finalizer()

    def __enter__(self) -> ServeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Description:
        content: dict[str, Json] = {
            "protocol": PROTOCOL,
            "client": CLIENT,
            "scratch": str(Path(self._scratch.name).resolve()),
        }
        try:
            return self._ask("start", read_description, content)
        except Refused as error:
            raise self._channel.failed(f"refuses to start: {error.reason}") from None

    def _ask(self, do: str, read: Callable[[Json], _Read], content: Object | None = None) -> _Read:
        answer = self._channel.ask(do, content)
        try:
            return read(answer)
        except ProtocolViolation as error:
            raise self._channel.failed(f"broke the protocol at {do}: {error}") from None

    def _needs(self, feature: Feature, what: str) -> None:
        if feature not in self.description.features:
            raise Refused(self.name, what, f"the program does not list the feature {feature}")

    def _tensors(self) -> TensorReader:
        return TensorReader(Path(self._scratch.name))

    def _check_tensors(self, found: Mapping[str, Array]) -> None:
        if self._shapes is None and self._folder is not None:
            self._shapes = model_shapes(self._folder)
        if self._shapes is not None:
            check_tensors(self.name, found, self._shapes)


def _let_go(channel: Channel, scratch: TemporaryDirectory[str]) -> None:
    try:
        channel.end()
    finally:
        scratch.cleanup()


def _read_nothing(answer: Json) -> None:
    Fields(answer, "the answer")
