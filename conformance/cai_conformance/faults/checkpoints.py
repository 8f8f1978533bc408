"""Faults of a training that is saved and gone on with: what is left out, in how many digits, and what is accepted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from cai_conformance.engines.errors import Refused
from cai_conformance.engines.reference_checkpoints import FILE, read_training, write_training
from cai_conformance.engines.reference_engine import ReferenceEngine
from cai_conformance.engines.reference_training import ReferenceTraining, StepParts, Targets
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, Vehicle, given
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.checkpoints.saved import read_checkpoint, reading
from cai_reference.checkpoints.saved.container import StoredTensor, read_tensors
from cai_reference.checkpoints.saved.layout import LENGTH_BYTES, WEIGHTS
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.bias_free import TiedOutput
from cai_reference.models.llama import Llama
from cai_reference.models.stack import DecoderStack
from cai_reference.training.adamw import Moments
from cai_reference.training.resumable import TrainingState

CHECKPOINT: Final = frozenset({Place.CHECKPOINT})
Resume = Callable[[ReferenceEngine, Path], None]


def _saved_as(planting: Planting, change: Callable[[TrainingState], TrainingState]) -> None:
    """Write another state than the one there is."""
    right = write_training

    def wrong(directory: Path, state: TrainingState) -> None:
        right(directory, change(state))

    planting.function(right, wrong)


def _without_moments(state: TrainingState) -> TrainingState:
    zeros = {name: Moments(0.0 * each.first, 0.0 * each.second) for name, each in state.optimizer.moments.items()}
    return replace(state, optimizer=replace(state.optimizer, moments=zeros))


def _in_half_precision(state: TrainingState) -> TrainingState:
    values = {name: value.astype(np.float16).astype(np.float64) for name, value in state.values.items()}
    return replace(state, values=values)


def _in_six_digits(state: TrainingState) -> TrainingState:
    return replace(state, values={name: _six_digits(value) for name, value in state.values.items()})


def _six_digits(value: Array) -> Array:
    rounded: Array = np.array([float(f"{each:.6g}") for each in value.ravel().tolist()]).reshape(value.shape)
    return rounded


def _written_late(planting: Planting) -> None:
    """Write in the background: by the time that the file is made, the next step has been taken."""
    right, step = write_training, ReferenceTraining.step
    waiting: list[Path] = []

    def wrong(directory: Path, state: TrainingState) -> None:
        right(directory, state)
        waiting[:] = [directory]

    def wrong_step(training: ReferenceTraining, inputs: list[list[int]], targets: Targets) -> StepParts:
        found = step(training, inputs, targets)
        if waiting and waiting[0].is_dir():
            right(waiting[0], training.checkpoint())
        waiting.clear()
        return found

    planting.function(right, wrong)
    planting.method(ReferenceTraining, "step", wrong_step)


def _resumed_as(planting: Planting, change: Callable[[ReferenceTraining, DecoderStack], None]) -> None:
    """Go on from a checkpoint, and change something."""
    right = ReferenceTraining.resumed

    def wrong(
        _: type[ReferenceTraining], model: DecoderStack, state: TrainingState, arithmetic: Arithmetic
    ) -> ReferenceTraining:
        training = right(model, state, arithmetic)
        change(training, model)
        return training

    planting.method(ReferenceTraining, "resumed", wrong)


def _from_step_0(training: ReferenceTraining, _: DecoderStack) -> None:
    optimizer = training._optimizer
    optimizer.state = replace(optimizer.state, step=0, beta1_power=1.0, beta2_power=1.0)


def _untied(_: ReferenceTraining, model: DecoderStack) -> None:
    """Give a tied head a table of its own, which has the right values and is in no list of what is trained."""
    if isinstance(model, Llama) and isinstance(model.head.output, TiedOutput):
        model.head = replace(model.head, output=TiedOutput(deepcopy(model.table)))


def _resuming(planting: Planting, around: Callable[[Resume, ReferenceEngine, Path], None]) -> None:
    """Do something around what the engine does when it goes on."""
    right = ReferenceEngine.resume_training

    def wrong(engine: ReferenceEngine, directory: Path) -> None:
        around(right, engine, directory)

    planting.method(ReferenceEngine, "resume_training", wrong)


def _with_present_settings(right: Resume, engine: ReferenceEngine, directory: Path) -> None:
    before = engine._training
    right(engine, directory)
    after = engine._training
    if before is not None and after is not None:
        after._settings = before._settings
        after._optimizer.configuration = before._optimizer.configuration
        after._optimizer.groups = before._optimizer.groups


def _silent_where_nothing_is(right: Resume, engine: ReferenceEngine, directory: Path) -> None:
    if (directory / FILE).exists():
        right(engine, directory)


def _weights_first(right: Resume, engine: ReferenceEngine, directory: Path) -> None:
    """Fill in weights tensor by tensor, and look at the rest afterwards."""
    try:
        right(engine, directory)
    except Refused:
        for parameter in engine._loaded().model.parameters:
            tensor = _readable(directory).get(f"{WEIGHTS}{parameter.name}")
            if tensor is not None and np.isfinite(tensor.values()).all():
                parameter.assign(tensor.values())
        raise


def _step_first(right: Resume, engine: ReferenceEngine, directory: Path) -> None:
    """Count a step before it is known whether there is anything to go on from."""
    training = engine._training
    try:
        right(engine, directory)
    except Refused:
        if training is not None and training._optimizer.state.step:
            state, settings = training._optimizer.state, training._optimizer.configuration
            powers = state.beta1_power * settings.beta1, state.beta2_power * settings.beta2
            training._optimizer.state = replace(state, beta1_power=powers[0], beta2_power=powers[1])
        raise


def _readable(directory: Path) -> Mapping[str, StoredTensor]:
    """Return the tensors of a file, with zeros where it ends too early; none where nothing can be read."""
    try:
        return read_tensors(_filled((directory / FILE).read_bytes()))[0]
    except (OSError, ValueError, CaiReferenceError):
        return {}


def _filled(data: bytes) -> bytes:
    """Return a file with as many bytes as its head states, zeros at the end.

    Raises:
        ValueError: there is no whole head.
    """
    length = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    head = json.loads(data[LENGTH_BYTES:length])
    ends = [entry["data_offsets"][1] for name, entry in head.items() if name != "__metadata__"]
    return data.ljust(length + max(ends), b"\0")


def _digests_ignored(planting: Planting) -> None:
    """Take every tensor as it stands in the file."""

    def wrong(_: object, tensors: Mapping[str, StoredTensor]) -> dict[str, Array]:
        return {name: tensors[name].values() for name in sorted(tensors)}

    planting.function(reading._checked_tensors, wrong)


def _cut_filled(planting: Planting) -> None:
    """Fill a file that ends too early with zeros, and take it as it is."""
    right = read_training

    def wrong(directory: Path) -> TrainingState:
        try:
            data = _filled((directory / FILE).read_bytes())
        except (OSError, ValueError):
            return right(directory)
        return read_checkpoint(data)

    _digests_ignored(planting)
    planting.function(right, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    plant: Callable[[Planting], None],
    *expected: str,
    precedent: str = "",
    kinds: tuple[str, ...] = (),
    vehicles: tuple[Vehicle, ...] = given(DENSE),
) -> Fault:
    return Fault(f"checkpoint.{slug}", title, story, precedent, CHECKPOINT, plant, "", kinds, vehicles, expected)


CHECKPOINTING: Final = (
    _fault(
        "moments-not-saved",
        "moments not saved",
        "They begin at zero again. Weights alone do not show it before the next step.",
        partial(_saved_as, change=_without_moments),
        "ckpt.resume",
        "ckpt.roundtrip",
        precedent="huggingface/transformers#17032; CodefyUI/CodefyUI#147",
        kinds=("C01",),
    ),
    _fault(
        "step-not-saved",
        "the number of steps not saved",
        "The bias is corrected as in the first step. Neither weights nor moments show it before the next one.",
        partial(_resumed_as, change=_from_step_0),
        "ckpt.resume",
        "ckpt.roundtrip",
        precedent="paiml/entrenar#294",
        kinds=("C01",),
    ),
    _fault(
        "settings-not-saved",
        "a resumed training has the settings of the one before",
        "Rate, betas, decay and limit are those of whatever was trained last. A fresh program hides it.",
        partial(_resuming, around=_with_present_settings),
        "ckpt.resume",
    ),
    _fault(
        "written-late",
        "a checkpoint written after the next step",
        "It is written in the background, from weights that go on being trained. Stopping at once hides it.",
        _written_late,
        "ckpt.roundtrip",
        "ckpt.resume",
    ),
    _fault(
        "half-precision",
        "weights saved in half precision",
        "A smaller file, and another model. Weights as they were given are exact there and hide it.",
        partial(_saved_as, change=_in_half_precision),
        "ckpt.roundtrip",
        "ckpt.resume",
        precedent="facebookresearch/metaseq#254",
        kinds=("C03",),
    ),
    _fault(
        "six-digits",
        "weights saved with six digits",
        "A text file holds fewer digits than the weights have; losses look the same.",
        partial(_saved_as, change=_in_six_digits),
        "ckpt.roundtrip",
        "ckpt.resume",
        precedent="joaopauloschuler/neural-api#22",
        kinds=("C03",),
    ),
    _fault(
        "head-untied",
        "a tied head is untied by resuming",
        "Output and table are equal after resuming, and only one of them is trained from then on.",
        partial(_resumed_as, change=_untied),
        "ckpt.roundtrip",
        "ckpt.resume",
        precedent="NVIDIA-NeMo/Automodel#2511; vec2text/vec2text#94",
        kinds=("C05",),
        vehicles=given(WINDOWED),
    ),
    _fault(
        "digests-ignored",
        "changed bytes accepted",
        "Digests are written, and nobody compares them. Only a byte that changes shows it.",
        _digests_ignored,
        "ckpt.strict",
    ),
    _fault(
        "cut-filled",
        "a file that was cut accepted",
        "What is missing at its end is taken for zeros.",
        _cut_filled,
        "ckpt.strict",
    ),
    _fault(
        "missing-ignored",
        "no checkpoint, and no refusal",
        "Where there is no file, training silently goes on from what there is.",
        partial(_resuming, around=_silent_where_nothing_is),
        "ckpt.strict",
    ),
    _fault(
        "half-applied",
        "weights replaced by a checkpoint that is refused",
        "They are filled in tensor by tensor, and a later one turns out to be damaged.",
        partial(_resuming, around=_weights_first),
        "ckpt.strict",
    ),
    _fault(
        "step-moved-on",
        "a checkpoint that is refused moves the step on",
        "What is shown stays as it was, and the next step is corrected for another number of steps.",
        partial(_resuming, around=_step_first),
        "ckpt.strict",
    ),
)
"""What is wrong with saving a training and going on from it."""
