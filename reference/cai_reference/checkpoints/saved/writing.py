"""Writing this project's own checkpoint; the layout is described in `layout`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.saved.container import double_bytes, write_tensors
from cai_reference.checkpoints.saved.descriptions import write_configuration, write_schedule
from cai_reference.checkpoints.saved.layout import FIRST, FORMAT, SECOND, VERSION, WEIGHTS
from cai_reference.text.strict_json import Json, Object
from cai_reference.training.resumable import TrainingState


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
