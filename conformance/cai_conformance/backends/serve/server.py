"""From a message to a call of an engine, and from what it returns to an answer.

A Python engine as a program: one thread takes messages and another answers them, so that one can be cancelled.

A Python engine cannot be interrupted in the middle of a call. A request that is cancelled is answered at once; what it
was doing goes on, and what is asked next waits for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from cai_conformance.backends.errors import one_line
from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object, format_line, parse_line
from cai_conformance.backends.serve.messages import Fields, integer, read_load, text, write_description, write_loaded
from cai_conformance.backends.serve.process import LINE_BYTES, PROTOCOL, TEXT
from cai_conformance.backends.serve.scratch import ScratchWriter
from cai_conformance.backends.serve.streams import printable
from cai_conformance.backends.serve.tensors import TensorWriter, read_pieces, write_evaluated
from cai_conformance.backends.serve.training_messages import (
    read_batch,
    read_order,
    read_settings,
    write_generated,
    write_gradients,
    write_saved,
    write_state,
)
from cai_conformance.backends.serve.validation import Validator
from cai_conformance.engine import (
    CheckpointingEngine,
    CopyingEngine,
    Description,
    DroppingEngine,
    Engine,
    FailingEngine,
    Feature,
    GeneratingEngine,
    PoisonableEngine,
    Refused,
    TrainingEngine,
)
from cai_reference.arithmetic.bits import hex_bits

PROTOCOLS: Final[Mapping[Feature, type]] = {
    Feature.DROP: DroppingEngine,
    Feature.COPY: CopyingEngine,
    Feature.GENERATE: GeneratingEngine,
    Feature.TRAIN: TrainingEngine,
    Feature.CHECKPOINT: CheckpointingEngine,
    Feature.POISON: PoisonableEngine,
    Feature.FAIL_AFTER: FailingEngine,
}
"""What an engine needs to have for a feature; `observe` is part of every engine's `evaluate`."""

ENVELOPE: Final = "id do seconds"
"""The keys of every message."""


class NotKnown(Exception):
    """A message asks for what the engine does not have; its text is the reason."""


def described(engine: Engine) -> Description:
    """Return what an engine says about itself, less the features for which it has no methods."""
    description = engine.description
    features = frozenset(
        feature for feature in description.features if isinstance(engine, PROTOCOLS.get(feature, object))
    )
    arms = description.arms if Feature.GENERATE in features else frozenset()
    return replace(description, features=features, arms=arms)


class Answerer:
    """Answers messages one after the other with one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._description = described(engine)
        self._files: ScratchWriter | None = None
        self._handlers: Mapping[str, Callable[[Object], dict[str, Json]]] = {
            "start": self._start,
            "load": self._load,
            "evaluate": self._evaluate,
            "clear": self._clear,
            "drop": self._drop,
            "copy": self._copy,
            "generate": self._generate,
            "gradients": self._gradients,
            "start-training": self._start_training,
            "train-step": self._train_step,
            "training-state": self._training_state,
            "save-training": self._save_training,
            "resume-training": self._resume_training,
            "poison": self._poison,
            "fail-after": self._fail_after,
        }

    def answer(self, do: str, message: Object) -> dict[str, Json]:
        """Return what stands under `ok`.

        Raises:
            NotKnown: the engine has no such feature, or nobody knows the message.
            ProtocolViolation: the message is not as it should be.
            EngineError: the engine refuses, or failed.
        """
        handler = self._handlers.get(do)
        if handler is None:
            raise NotKnown(f"{do} is not known here")
        if self._files is not None:
            self._files.begin()
        elif do != "start":
            raise ProtocolViolation("the message", f"is {do}, before start")
        return handler(message)

    def _fields(self, message: Object, keys: str = "") -> Fields:
        return Fields(dict(message), "the message", f"{ENVELOPE} {keys}")

    def _tensors(self) -> TensorWriter:
        assert self._files is not None
        return TensorWriter(self._files)

    def _slot(self, fields: Fields, key: str) -> int:
        return fields.integer(key, 0, self._description.slots - 1)

    def _has(self, feature: Feature) -> None:
        if feature not in self._description.features:
            raise NotKnown(f"the engine does not have the feature {feature}")

    def _start(self, message: Object) -> dict[str, Json]:
        fields = self._fields(message, "protocol client scratch")
        fields.one_of("protocol", [PROTOCOL])
        fields.text("client")
        self._files = ScratchWriter(Path(fields.text("scratch")))
        return write_description(self._description)

    def _load(self, message: Object) -> dict[str, Json]:
        folder, precision = read_load(message)
        return write_loaded(self._engine.load(Path(folder), precision))

    def _evaluate(self, message: Object) -> dict[str, Json]:
        pieces, observe = read_pieces(message, self._description.slots)
        if observe:
            self._has(Feature.OBSERVE)
        return write_evaluated(self._engine.evaluate(pieces, observe=observe), self._tensors())

    def _clear(self, message: Object) -> dict[str, Json]:
        self._engine.clear(self._slot(self._fields(message, "slot"), "slot"))
        return {}

    def _drop(self, message: Object) -> dict[str, Json]:
        self._has(Feature.DROP)
        fields = self._fields(message, "slot first last")
        last = None if fields["last"] is None else fields.integer("last")
        assert isinstance(self._engine, DroppingEngine)
        self._engine.drop(self._slot(fields, "slot"), fields.integer("first"), last)
        return {}

    def _copy(self, message: Object) -> dict[str, Json]:
        self._has(Feature.COPY)
        fields = self._fields(message, "source target")
        assert isinstance(self._engine, CopyingEngine)
        self._engine.copy(self._slot(fields, "source"), self._slot(fields, "target"))
        return {}

    def _generate(self, message: Object) -> dict[str, Json]:
        self._has(Feature.GENERATE)
        assert isinstance(self._engine, GeneratingEngine)
        return write_generated(self._engine.generate(read_order(message)))

    def _trainer(self) -> TrainingEngine:
        self._has(Feature.TRAIN)
        assert isinstance(self._engine, TrainingEngine)
        return self._engine

    def _gradients(self, message: Object) -> dict[str, Json]:
        return write_gradients(self._trainer().gradients(read_batch(message)), self._tensors())

    def _start_training(self, message: Object) -> dict[str, Json]:
        self._trainer().start_training(read_settings(message))
        return {}

    def _train_step(self, message: Object) -> dict[str, Json]:
        return {"loss": hex_bits(self._trainer().train_step(read_batch(message)))}

    def _training_state(self, message: Object) -> dict[str, Json]:
        self._fields(message)
        return write_state(self._trainer().training_state(), self._tensors())

    def _checkpointer(self) -> CheckpointingEngine:
        self._has(Feature.CHECKPOINT)
        assert isinstance(self._engine, CheckpointingEngine)
        return self._engine

    def _save_training(self, message: Object) -> dict[str, Json]:
        return write_saved(self._checkpointer().save_training(self._directory(message)))

    def _resume_training(self, message: Object) -> dict[str, Json]:
        self._checkpointer().resume_training(self._directory(message))
        return {}

    def _directory(self, message: Object) -> Path:
        return Path(self._fields(message, "directory").text("directory"))

    def _poison(self, message: Object) -> dict[str, Json]:
        self._has(Feature.POISON)
        value = self._fields(message, "value").real("value")
        assert isinstance(self._engine, PoisonableEngine)
        self._engine.poison(value)
        return {}

    def _fail_after(self, message: Object) -> dict[str, Json]:
        self._has(Feature.FAIL_AFTER)
        layers = self._fields(message, "layers").integer("layers")
        assert isinstance(self._engine, FailingEngine)
        self._engine.fail_after(layers)
        return {}


Message = dict[str, Json]

_END: Final = None


def serve(engine: Engine, stdin: IO[bytes], stdout: IO[bytes], *, validate: bool = False) -> None:
    """Answer messages with an engine until `stop`, or until there are no more; then close it.

    Args:
        engine: what answers.
        stdin: lines with messages.
        stdout: where lines with answers go.
        validate: whether every message and answer is held against its JSON Schema, too.

    Raises:
        ProtocolViolation: a line cannot be read, so that there is no id to answer.
        BackendError (validator-missing): the library for `validate` is not installed.
    """
    try:
        server = _Server(engine, stdout, Validator() if validate else None)
        threading.Thread(target=server.read, args=(stdin,), name="cai-conform messages", daemon=True).start()
        server.work()
    finally:
        engine.close()


class _Server:
    def __init__(self, engine: Engine, stdout: IO[bytes], validator: Validator | None) -> None:
        self._answerer = Answerer(engine)
        self._stdout = stdout
        self._validator = validator
        self._waiting: queue.SimpleQueue[Message | ProtocolViolation | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[int, str] = {}
        """What each request asks that has not been answered."""

    def read(self, stdin: IO[bytes]) -> None:
        """Take messages as they come, and see to those that cancel others."""
        try:
            for line in _lines(stdin):
                message = parse_line(line)
                number = integer(message.get("id"), "'id' of a message")
                do = str(message.get("do"))
                with self._lock:
                    if number in self._open:
                        raise ProtocolViolation("a message", f"has the id {number}, which waits for its answer")
                    self._open[number] = do
                if do == "cancel":
                    self._cancel(number, message)
                else:
                    self._waiting.put(message)
                if do == "stop":
                    return
            self._waiting.put(_END)
        except ProtocolViolation as error:
            self._waiting.put(error)

    def work(self) -> None:
        """Answer what waits, one after the other."""
        while (message := self._waiting.get()) is not _END:
            if isinstance(message, ProtocolViolation):
                raise message
            number = integer(message["id"], "'id' of a message")
            with self._lock:
                do = self._open.get(number)
            if do is None:
                continue
            self._answer(number, self._outcome(do, message))
            if do == "stop":
                return

    def _outcome(self, do: str, message: Message) -> Message:
        try:
            self._check(do, message)
            if do == "stop":
                Fields(message, "the message", ENVELOPE)
                return {"ok": {}}
            return {"ok": self._answerer.answer(do, message)}
        except NotKnown as error:
            return {"skipped": str(error)}
        except Refused as error:
            return {"skipped": _reason(error.reason)}
        # Whatever an engine raises is the reason to report, and the next request may still be answered.
        except Exception as error:
            return {"errored": _reason(str(error) if isinstance(error, ProtocolViolation) else one_line(error))}

    def _check(self, do: str, message: Message) -> None:
        text(message.get("do"), "'do' of the message")
        integer(message.get("seconds"), "'seconds' of the message", 1)
        if self._validator is not None and self._validator.knows(do):
            self._validator.check_message(message)

    def _cancel(self, number: int, message: Message) -> None:
        try:
            self._check("cancel", message)
            request = Fields(message, "the message", f"{ENVELOPE} request").integer("request")
        except ProtocolViolation as error:
            self._answer(number, {"errored": _reason(str(error))})
            return
        self._answer(request, {"errored": "it was cancelled"})
        self._answer(number, {"ok": {}})

    def _answer(self, number: int, outcome: Message) -> None:
        """Answer a request, unless it has been answered."""
        answer: Message = {"id": number, **outcome}
        with self._lock:
            do = self._open.pop(number, None)
            if do is None:
                return
            if self._validator is not None and self._validator.knows(do):
                self._validator.check_answer(do, answer)
            try:
                line = format_line(answer)
            except ProtocolViolation as error:
                line = format_line({"id": number, "errored": str(error)})
            self._stdout.write(line)
            self._stdout.flush()


def _lines(stdin: IO[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; a last one that has none is cut off, and an error."""
    while line := stdin.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise ProtocolViolation("a message", f"has more than {LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise ProtocolViolation("the input", "ends within a line")
        yield line[:-1]


def _reason(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown[:TEXT] or "it does not say why"
