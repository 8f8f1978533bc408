"""This project's own checkpoint: layout, reading and writing.

A safetensors file: the length of a JSON header in eight bytes, the header, the tensors. Its metadata have four keys::

    format   cai-conform checkpoint
    version  1
    state    the description of the run, JSON with sorted keys and without spaces
    digest   SHA-256 of the text of `state`, in hex digits

Tensors are doubles: `weights/NAME` for every parameter, and `first/NAME` and `second/NAME` for its moments from the
first step on. The description lists each with shape and SHA-256, so that no byte of the file that means something can
change unnoticed, and what changed is named. Its other keys::

    model        kind and sizes
    optimizer    the hyperparameters, the names that decay and those that do not
    schedule     kind and numbers
    run          largest norm, batch size, arithmetic
    progress     step, the optimiser's step and powers of beta
    data         number and digest of the examples; epoch, batch and generator of the place
    generators   states of all others, by name
    parameters   names in registry order

A state of a generator is a text of sixteen hex digits, because JSON readers in other languages round large numbers. A
double is a decimal that reads back as itself.

Reading takes all of a checkpoint or refuses it. The first failure wins, in this order: the container; format and
version; the digest of the description; what it says, key by key; the list of tensors, first missing ones, then
unexpected ones, then each one's numbers, shape and bytes; at last what the parts have to do with each other, and with a
model of the configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import named
from cai_reference.checkpoints.description import (
    SavedFields,
    read_configuration,
    read_schedule,
    write_configuration,
    write_schedule,
)
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.checkpoints.tensor_file import (
    DOUBLE,
    StoredTensor,
    described,
    double_bytes,
    read_tensors,
    write_tensors,
)
from cai_reference.text import strict_json
from cai_reference.text.strict_json import Json, Object
from cai_reference.training.adamw import AdamWConfiguration, AdamWState, Moments, ParameterGroups
from cai_reference.training.state import OrderPlace, Setup, TrainingState

FORMAT: Final = "cai-conform checkpoint"
VERSION: Final = "1"
KEYS: Final = ("format", "version", "state", "digest")
WEIGHTS: Final = "weights/"
FIRST: Final = "first/"
SECOND: Final = "second/"


SECTIONS = ("model", "optimizer", "schedule", "run", "progress", "data", "generators", "parameters", "tensors")
HYPERPARAMETERS = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")


def read_checkpoint(data: bytes) -> TrainingState:
    """Return the state in the bytes of a checkpoint.

    Raises:
        CheckpointError: a leaf that names the part.
        ModelError, LayerError, AdamWError, TrainingError, TrainingError, `unknown-arithmetic`: what the description
        says
            cannot be.
        TrainingError: the parts do not fit each other, or the model.
    """
    tensors, metadata = read_tensors(data)
    fields = SavedFields(_parsed(_checked_text(metadata)), "description", SECTIONS)
    setup = _setup(fields)
    configuration = read_configuration(fields.raw("model"))
    progress = SavedFields(fields.raw("progress"), "progress", ("step", "optimizer_step", "beta1_power", "beta2_power"))
    place = SavedFields(fields.raw("data"), "data", ("examples", "digest", "epoch", "batch", "generator"))
    names = fields.texts("parameters")
    if len(set(names)) != len(names):
        raise CheckpointError("bad-description", where="parameters", problem="a name stands there twice")
    values = _checked_tensors(fields.raw("tensors"), tensors)
    moments = {name: Moments(values[FIRST + name], values[SECOND + name]) for name in _with_moments(names, values)}
    state = TrainingState(
        configuration,
        setup,
        place.integer("examples"),
        place.digest("digest"),
        progress.integer("step"),
        {name: values[WEIGHTS + name] for name in names},
        AdamWState(
            progress.integer("optimizer_step"), progress.double("beta1_power"), progress.double("beta2_power"), moments
        ),
        OrderPlace(place.integer("epoch"), place.integer("batch"), place.hex_state("generator")),
        _generators(fields.raw("generators")),
    )
    state.model()
    return state


def _checked_text(metadata: Mapping[str, str]) -> str:
    """Return the text of the description, after format, version and digest have been checked."""
    for key in KEYS:
        if key not in metadata or (key == "format" and metadata[key] != FORMAT):
            raise CheckpointError("not-a-checkpoint", key=key)
    if metadata["version"] != VERSION:
        raise CheckpointError("unknown-checkpoint-version", found=metadata["version"], known=VERSION)
    text = metadata["state"]
    actual = hashlib.sha256(text.encode()).hexdigest()
    if metadata["digest"] != actual:
        raise CheckpointError("state-damaged", stored=metadata["digest"], actual=actual)
    return text


def _parsed(text: str) -> Json:
    try:
        return strict_json.parse(text.encode())
    except strict_json.JsonProblem as error:
        raise CheckpointError("bad-description", where="description", problem=str(error)) from None


def _setup(sections: SavedFields) -> Setup:
    optimizer = SavedFields(sections.raw("optimizer"), "optimizer", (*HYPERPARAMETERS, "decay", "no_decay"))
    run = SavedFields(sections.raw("run"), "run", ("maximum_norm", "batch_size", "arithmetic"))
    return Setup(
        AdamWConfiguration(*(optimizer.double(name) for name in HYPERPARAMETERS)),
        ParameterGroups(optimizer.texts("decay"), optimizer.texts("no_decay")),
        read_schedule(sections.raw("schedule")),
        None if run.is_null("maximum_norm") else run.double("maximum_norm"),
        run.integer("batch_size"),
        named(run.text("arithmetic")),
    )


def _generators(value: Json) -> dict[str, int]:
    names = list(value) if isinstance(value, strict_json.Object) else []
    fields = SavedFields(value, "generators", names)
    return {name: fields.hex_state(name) for name in names}


def _checked_tensors(value: Json, tensors: Mapping[str, StoredTensor]) -> dict[str, Array]:
    """Compare the tensors of the file with the list of the description."""
    names = sorted(value) if isinstance(value, strict_json.Object) else []
    listed = SavedFields(value, "tensors", names)
    for name in names:
        if name not in tensors:
            raise CheckpointError("missing-part", name=name)
    for name in sorted(tensors):
        if name not in names:
            raise CheckpointError("unexpected-part", name=name)
    for name in names:
        entry = SavedFields(listed.raw(name), f"tensor {name}", ("shape", "sha256"))
        expected, tensor = described(DOUBLE, entry.shape("shape")), tensors[name]
        if tensor.words != expected:
            raise CheckpointError("part-differs", name=name, expected=expected, found=tensor.words)
        if tensor.digest != entry.digest("sha256"):
            raise CheckpointError("part-damaged", name=name, stored=entry.digest("sha256"), actual=tensor.digest)
    return {name: tensors[name].values() for name in names}


def _with_moments(names: tuple[str, ...], values: Mapping[str, Array]) -> list[str]:
    """Return the parameters that have moments, after all tensors have been given their place."""
    wanted = {WEIGHTS + name for name in names}
    having = [name for name in names if FIRST + name in values or SECOND + name in values]
    wanted |= {part + name for name in having for part in (FIRST, SECOND)}
    for name in sorted(wanted):
        if name not in values:
            raise CheckpointError("missing-part", name=name)
    for name in sorted(values):
        if name not in wanted:
            raise CheckpointError("unexpected-part", name=name)
    return having


def write_checkpoint(state: TrainingState) -> bytes:
    """Return the file that holds this state; one state has one file."""
    tensors = {f"{WEIGHTS}{name}": values for name, values in state.values.items()}
    for name, moments in state.optimizer.moments.items():
        tensors[f"{FIRST}{name}"] = moments.first
        tensors[f"{SECOND}{name}"] = moments.second
    text = json.dumps(_description(state, tensors), sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return write_tensors(tensors, {"format": FORMAT, "version": VERSION, "state": text, "digest": digest})


def _description(state: TrainingState, tensors: Mapping[str, Array]) -> Object:
    setup, optimizer = state.setup, state.optimizer
    hyperparameters = setup.optimizer
    return Object(
        model=write_configuration(state.configuration),
        optimizer=Object(
            learning_rate=float(hyperparameters.learning_rate),
            beta1=float(hyperparameters.beta1),
            beta2=float(hyperparameters.beta2),
            epsilon=float(hyperparameters.epsilon),
            weight_decay=float(hyperparameters.weight_decay),
            decay=_texts(setup.groups.decay),
            no_decay=_texts(setup.groups.no_decay),
        ),
        schedule=write_schedule(setup.schedule),
        run=Object(
            maximum_norm=None if setup.maximum_norm is None else float(setup.maximum_norm),
            batch_size=setup.batch_size,
            arithmetic=setup.arithmetic.identifier,
        ),
        progress=Object(
            step=state.step,
            optimizer_step=optimizer.step,
            beta1_power=optimizer.beta1_power,
            beta2_power=optimizer.beta2_power,
        ),
        data=Object(
            examples=state.examples,
            digest=state.data,
            epoch=state.place.epoch,
            batch=state.place.batch,
            generator=f"{state.place.generator:016x}",
        ),
        generators=Object({name: f"{value:016x}" for name, value in state.generators.items()}),
        parameters=_texts(state.values),
        tensors=Object({name: _listed(values) for name, values in tensors.items()}),
    )


def _listed(values: Array) -> Object:
    return Object(shape=list(values.shape), sha256=hashlib.sha256(double_bytes(values)).hexdigest())


def _texts(names: Iterable[str]) -> list[Json]:
    return list(names)
