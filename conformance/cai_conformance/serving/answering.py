"""From a message to a call of an engine, and from what it returns to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cai_conformance.engines.checkpointing import CheckpointingEngine
from cai_conformance.engines.description import Description, Feature
from cai_conformance.engines.protocol import (
    CopyingEngine,
    DroppingEngine,
    Engine,
    FailingEngine,
    GeneratingEngine,
    PoisonableEngine,
)
from cai_conformance.engines.training import TrainingEngine
from cai_conformance.serving.descriptions import read_load, write_description, write_loaded
from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.fields import Fields
from cai_conformance.serving.generation import read_order, write_generated
from cai_conformance.serving.limits import PROTOCOL
from cai_conformance.serving.lines import Json, Object
from cai_conformance.serving.pieces import read_pieces, write_evaluated
from cai_conformance.serving.scratch import ScratchWriter
from cai_conformance.serving.tensors import TensorWriter
from cai_conformance.serving.training_messages import (
    read_batch,
    read_settings,
    write_gradients,
    write_saved,
    write_state,
)
from cai_reference.arithmetic import hex_bits

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
