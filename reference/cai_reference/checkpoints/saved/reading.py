"""Reading this project's own checkpoint, or refusing all of it.

The first failure wins, in this order: the container; format and version; the digest of the description; what it says,
key by key; the list of tensors, first missing ones, then unexpected ones, then each one's numbers, shape and bytes; at
last what the parts have to do with each other, and with a model of the configuration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cai_reference.arithmetic import Array, named
from cai_reference.checkpoints.saved.container import StoredTensor, described, read_tensors
from cai_reference.checkpoints.saved.descriptions import read_configuration, read_schedule
from cai_reference.checkpoints.saved.errors import (
    BadDescription,
    MissingPart,
    NotACheckpoint,
    PartDamaged,
    PartDiffers,
    StateDamaged,
    UnexpectedPart,
    UnknownCheckpointVersion,
)
from cai_reference.checkpoints.saved.fields import Fields
from cai_reference.checkpoints.saved.layout import DOUBLE, FIRST, FORMAT, KEYS, SECOND, VERSION, WEIGHTS
from cai_reference.text import strict_json
from cai_reference.text.strict_json import Json
from cai_reference.training.adamw import AdamWConfiguration, AdamWState, Moments, ParameterGroups
from cai_reference.training.data_order import OrderPlace
from cai_reference.training.resumable import Setup, TrainingState

SECTIONS = ("model", "optimizer", "schedule", "run", "progress", "data", "generators", "parameters", "tensors")
HYPERPARAMETERS = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")


def read_checkpoint(data: bytes) -> TrainingState:
    """Return the state in the bytes of a checkpoint.

    Raises:
        SavedCheckpointError: a leaf that names the part.
        ModelError, MixerError, AdamWError, ScheduleError, ClipError, UnknownArithmetic: what the description says
            cannot be.
        OptimizerStateError, ResumeError: the parts do not fit each other, or the model.
    """
    tensors, metadata = read_tensors(data)
    fields = Fields(_parsed(_checked_text(metadata)), "description", SECTIONS)
    setup = _setup(fields)
    configuration = read_configuration(fields.raw("model"))
    progress = Fields(fields.raw("progress"), "progress", ("step", "optimizer_step", "beta1_power", "beta2_power"))
    place = Fields(fields.raw("data"), "data", ("examples", "digest", "epoch", "batch", "generator"))
    names = fields.texts("parameters")
    if len(set(names)) != len(names):
        raise BadDescription("parameters", "a name stands there twice")
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
            raise NotACheckpoint(key)
    if metadata["version"] != VERSION:
        raise UnknownCheckpointVersion(metadata["version"], VERSION)
    text = metadata["state"]
    actual = hashlib.sha256(text.encode()).hexdigest()
    if metadata["digest"] != actual:
        raise StateDamaged(metadata["digest"], actual)
    return text


def _parsed(text: str) -> Json:
    try:
        return strict_json.parse(text.encode())
    except strict_json.JsonProblem as error:
        raise BadDescription("description", str(error)) from None


def _setup(sections: Fields) -> Setup:
    optimizer = Fields(sections.raw("optimizer"), "optimizer", (*HYPERPARAMETERS, "decay", "no_decay"))
    run = Fields(sections.raw("run"), "run", ("maximum_norm", "batch_size", "arithmetic"))
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
    fields = Fields(value, "generators", names)
    return {name: fields.hex_state(name) for name in names}


def _checked_tensors(value: Json, tensors: Mapping[str, StoredTensor]) -> dict[str, Array]:
    """Compare the tensors of the file with the list of the description."""
    names = sorted(value) if isinstance(value, strict_json.Object) else []
    listed = Fields(value, "tensors", names)
    for name in names:
        if name not in tensors:
            raise MissingPart(name)
    for name in sorted(tensors):
        if name not in names:
            raise UnexpectedPart(name)
    for name in names:
        entry = Fields(listed.raw(name), f"tensor {name}", ("shape", "sha256"))
        expected, tensor = described(DOUBLE, entry.shape("shape")), tensors[name]
        if tensor.words != expected:
            raise PartDiffers(name, expected, tensor.words)
        if tensor.digest != entry.digest("sha256"):
            raise PartDamaged(name, entry.digest("sha256"), tensor.digest)
    return {name: tensors[name].values() for name in names}


def _with_moments(names: tuple[str, ...], values: Mapping[str, Array]) -> list[str]:
    """Return the parameters that have moments, after all tensors have been given their place."""
    wanted = {WEIGHTS + name for name in names}
    having = [name for name in names if FIRST + name in values or SECOND + name in values]
    wanted |= {part + name for name in having for part in (FIRST, SECOND)}
    for name in sorted(wanted):
        if name not in values:
            raise MissingPart(name)
    for name in sorted(values):
        if name not in wanted:
            raise UnexpectedPart(name)
    return having
