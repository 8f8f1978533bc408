"""The messages of `train` and `checkpoint`: settings and batches on the way there, losses and tensors back.

`generate`: a prompt on the way there, ids and the likeliest ones of each step on the way back.
"""

from __future__ import annotations

from collections.abc import Mapping

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object
from cai_conformance.backends.serve.messages import Fields, integer, items, real
from cai_conformance.backends.serve.tensors import TensorReader, TensorWriter
from cai_conformance.engine import (
    EngineError,
    Generated,
    GenerationOrder,
    LossAndGradients,
    OptimizerState,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import hex_bits

_REALS = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")


def write_settings(settings: TrainingSettings) -> dict[str, Json]:
    """Return what `start-training` asks."""
    reals: dict[str, Json] = {name: hex_bits(getattr(settings, name)) for name in _REALS}
    clip = None if settings.clip is None else hex_bits(settings.clip)
    return {**reals, "clip": clip, "decayed": list(settings.decayed)}


def read_settings(message: Object) -> TrainingSettings:
    """Read what `start-training` asks."""
    fields = Fields(dict(message), "the message", f"id do seconds {' '.join(_REALS)} clip decayed")
    clip = None if fields["clip"] is None else fields.real("clip")
    return TrainingSettings(**{name: fields.real(name) for name in _REALS}, clip=clip, decayed=fields.texts("decayed"))


def write_batch(batch: TrainingBatch) -> dict[str, Json]:
    """Return what `gradients` and `train-step` ask."""
    return {
        "inputs": [list(row) for row in batch.inputs],
        "targets": [[list(row) for row in head] for head in batch.targets],
    }


def read_batch(message: Object) -> TrainingBatch:
    """Read what `gradients` and `train-step` ask."""
    fields = Fields(dict(message), "the message", "id do seconds inputs targets")
    inputs = _rows(fields["inputs"], "'inputs'", 0)
    targets = tuple(
        _rows(head, f"head {place} of 'targets'", -1) for place, head in enumerate(fields.items("targets", 1))
    )
    widths = [[len(row) for row in rows] for rows in (inputs, *targets)]
    if len(set(widths[0])) != 1 or any(other != widths[0] for other in widths):
        raise ProtocolViolation("the message", "has inputs and targets that are not of one shape")
    return TrainingBatch(inputs, targets)


def write_gradients(found: LossAndGradients, tensors: TensorWriter) -> dict[str, Json]:
    """Return the answer to `gradients`."""
    return {"loss": hex_bits(found.loss), "gradients": tensors.write_named(found.gradients)}


def read_gradients(answer: Json, tensors: TensorReader) -> LossAndGradients:
    """Read the answer to `gradients`."""
    fields = Fields(answer, "the answer to gradients", "loss gradients")
    return LossAndGradients(fields.real("loss"), tensors.read_named(fields.items("gradients"), "'gradients'"))


def read_loss(answer: Json) -> float:
    """Read the answer to `train-step`."""
    return real(Fields(answer, "the answer to train-step", "loss")["loss"], "'loss'")


def write_state(state: OptimizerState, tensors: TensorWriter) -> dict[str, Json]:
    """Return the answer to `training-state`."""
    return {
        "weights": tensors.write_named(state.weights),
        "first_moments": tensors.write_named(state.first_moments),
        "second_moments": tensors.write_named(state.second_moments),
    }


def read_state(answer: Json, tensors: TensorReader) -> OptimizerState:
    """Read the answer to `training-state`."""
    parts = ("weights", "first_moments", "second_moments")
    fields = Fields(answer, "the answer to training-state", " ".join(parts))
    return OptimizerState(*(tensors.read_named(fields.items(part), f"{part!r}") for part in parts))


def write_saved(saved: SavedTraining) -> dict[str, Json]:
    """Return the answer to `save-training`."""
    return {"checksums": saved.checksums}


def read_saved(answer: Json) -> SavedTraining:
    """Read the answer to `save-training`."""
    return SavedTraining(Fields(answer, "the answer to save-training", "checksums").flag("checksums"))


def check_tensors(engine: str, found: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare tensors with those of the model file; whether some are missing is for the judges.

    Raises:
        EngineError (answer-out-of-shape): a name is not one of the file's, or a shape is another one.
    """
    for name, value in found.items():
        if name not in shapes:
            raise EngineError(
                "answer-out-of-shape", engine=engine, found=f"a tensor {name!r}", wanted="those of the model file"
            )
        if value.shape != shapes[name]:
            raise EngineError(
                "answer-out-of-shape",
                engine=engine,
                found=f"{name!r} of the shape {list(value.shape)}",
                wanted=f"{list(shapes[name])}",
            )


def _rows(value: Json, what: str, low: int) -> tuple[tuple[int, ...], ...]:
    rows = items(value, what, 1)
    return tuple(
        tuple(integer(token, f"a token of {what}", low) for token in items(row, f"row {place} of {what}", 1))
        for place, row in enumerate(rows)
    )


def write_order(order: GenerationOrder) -> dict[str, Json]:
    """Return what `generate` asks."""
    return {
        "prompt": list(order.prompt),
        "new_tokens": order.new_tokens,
        "arm": order.arm,
        "stop": order.stop,
        "top": order.top,
    }


def read_order(message: Object) -> GenerationOrder:
    """Read what `generate` asks."""
    fields = Fields(dict(message), "the message", "id do seconds prompt new_tokens arm stop top")
    return GenerationOrder(
        prompt=fields.integers("prompt", least=1),
        new_tokens=fields.integer("new_tokens"),
        arm=fields.text("arm"),
        stop=None if fields["stop"] is None else fields.integer("stop"),
        top=fields.integer("top"),
    )


def write_generated(generated: Generated) -> dict[str, Json]:
    """Return the answer to `generate`."""
    return {
        "ids": list(generated.ids),
        "top": [[[token, hex_bits(value)] for token, value in step] for step in generated.top],
    }


def read_generated(answer: Json) -> Generated:
    """Read the answer to `generate`."""
    fields = Fields(answer, "the answer to generate", "ids top")
    steps = tuple(_step(step, f"step {place} of 'top'") for place, step in enumerate(fields.items("top")))
    return Generated(fields.integers("ids"), steps)


def check_generated(engine: str, generated: Generated, order: GenerationOrder) -> None:
    """Compare an answer with what was asked.

    Raises:
        EngineError (answer-out-of-shape): it has more ids than were asked for, goes on behind the stop, or has other
            numbers of likely
            ids. A vocabulary may be smaller than the number that was asked for.
    """
    ids, top = generated.ids, generated.top
    if len(ids) > order.new_tokens:
        raise EngineError(
            "answer-out-of-shape", engine=engine, found=f"{len(ids)} ids", wanted=f"at most {order.new_tokens}"
        )
    if order.stop in ids[:-1]:
        raise EngineError(
            "answer-out-of-shape", engine=engine, found=f"ids behind the stop {order.stop}", wanted="an end there"
        )
    if order.top == 0 and not any(top):
        return
    sizes = {len(step) for step in top}
    if len(top) != len(ids) or max(sizes, default=0) > order.top or len(sizes) > 1 or 0 in sizes:
        found = f"{len(top)} steps of {', '.join(map(str, sorted(sizes))) or 0} likely ids"
        raise EngineError("answer-out-of-shape", engine=engine, found=found, wanted=f"{len(ids)} of {order.top}")


def _step(value: Json, what: str) -> tuple[tuple[int, float], ...]:
    step = []
    for pair in items(value, what):
        token, bits = items(pair, f"an entry of {what}", 2, 2)
        step.append((integer(token, f"an id of {what}"), real(bits, f"a log-probability of {what}")))
    if len({token for token, _ in step}) != len(step):
        raise ProtocolViolation(what, "has an id twice")
    return tuple(step)
