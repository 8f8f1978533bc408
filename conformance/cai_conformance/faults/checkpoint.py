"""Faults of a training that is saved and gone on with: what is left out, in how many digits, and what is accepted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.backends.reference.training import (
    FILE,
    ReferenceTraining,
    StepParts,
    Targets,
    read_training,
    write_training,
)
from cai_conformance.engine import Refused
from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, WINDOWED, given
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.checkpoints import saved as reading
from cai_reference.checkpoints.saved import WEIGHTS, read_checkpoint
from cai_reference.checkpoints.tensor_file import LENGTH_BYTES, StoredTensor, read_tensors
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.matrices import TiedOutput
from cai_reference.models.llama import Llama
from cai_reference.models.stack import DecoderStack
from cai_reference.training.adamw import Moments
from cai_reference.training.state import TrainingState

Resume = Callable[[ReferenceEngine, Path], None]


def _saved_as(patch: Patch, change: Callable[[TrainingState], TrainingState]) -> None:
    """Write another state than the one there is."""
    right = write_training

    def wrong(directory: Path, state: TrainingState) -> None:
        right(directory, change(state))

    patch.replace(right, wrong)


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


def _resumed_as(patch: Patch, change: Callable[[ReferenceTraining, DecoderStack], None]) -> None:
    """Go on from a checkpoint, and change something."""
    right = ReferenceTraining.resumed

    def wrong(
        _: type[ReferenceTraining], model: DecoderStack, state: TrainingState, arithmetic: Arithmetic
    ) -> ReferenceTraining:
        training = right(model, state, arithmetic)
        change(training, model)
        return training

    patch.replace((ReferenceTraining, "resumed"), wrong)


def _from_step_0(training: ReferenceTraining, _: DecoderStack) -> None:
    optimizer = training._optimizer
    optimizer.state = replace(optimizer.state, step=0, beta1_power=1.0, beta2_power=1.0)


def _untied(_: ReferenceTraining, model: DecoderStack) -> None:
    """Give a tied head a table of its own, which has the right values and is in no list of what is trained."""
    if isinstance(model, Llama) and isinstance(model.head.output, TiedOutput):
        model.head = replace(model.head, output=TiedOutput(deepcopy(model.table)))


def _resuming(patch: Patch, around: Callable[[Resume, ReferenceEngine, Path], None]) -> None:
    """Do something around what the engine does when it goes on."""
    right = ReferenceEngine.resume_training

    def wrong(engine: ReferenceEngine, directory: Path) -> None:
        around(right, engine, directory)

    patch.replace((ReferenceEngine, "resume_training"), wrong)


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


def _digests_ignored(patch: Patch) -> None:
    """Take every tensor as it stands in the file."""

    def wrong(_: object, tensors: Mapping[str, StoredTensor]) -> dict[str, Array]:
        return {name: tensors[name].values() for name in sorted(tensors)}

    patch.replace(reading._checked_tensors, wrong)


_checkpoint = Family(frozenset({Place.CHECKPOINT}), given(DENSE))


@_checkpoint(
    "checkpoint.moments-not-saved",
    "moments not saved",
    "ckpt.resume ckpt.roundtrip",
    seen_in="huggingface/transformers#17032; CodefyUI/CodefyUI#147",
    kinds="C01",
)
def _moments_not_saved(patch: Patch) -> None:
    """They begin at zero again. Weights alone do not show it before the next step."""
    _saved_as(patch, change=_without_moments)


@_checkpoint(
    "checkpoint.step-not-saved",
    "the number of steps not saved",
    "ckpt.resume ckpt.roundtrip",
    seen_in="paiml/entrenar#294",
    kinds="C01",
)
def _step_not_saved(patch: Patch) -> None:
    """The bias is corrected as in the first step. Neither weights nor moments show it before the next one."""
    _resumed_as(patch, change=_from_step_0)


@_checkpoint("checkpoint.settings-not-saved", "a resumed training has the settings of the one before", "ckpt.resume")
def _settings_not_saved(patch: Patch) -> None:
    """Rate, betas, decay and limit are those of whatever was trained last. A fresh program hides it."""
    _resuming(patch, around=_with_present_settings)


@_checkpoint("checkpoint.written-late", "a checkpoint written after the next step", "ckpt.roundtrip ckpt.resume")
def _written_late(patch: Patch) -> None:
    """It is written in the background, from weights that go on being trained. Stopping at once hides it."""
    # Write in the background: by the time that the file is made, the next step has been taken.
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

    patch.replace(right, wrong)
    patch.replace((ReferenceTraining, "step"), wrong_step)


@_checkpoint(
    "checkpoint.half-precision",
    "weights saved in half precision",
    "ckpt.roundtrip ckpt.resume",
    seen_in="facebookresearch/metaseq#254",
    kinds="C03",
)
def _half_precision(patch: Patch) -> None:
    """A smaller file, and another model. Weights as they were given are exact there and hide it."""
    _saved_as(patch, change=_in_half_precision)


@_checkpoint(
    "checkpoint.six-digits",
    "weights saved with six digits",
    "ckpt.roundtrip ckpt.resume",
    seen_in="joaopauloschuler/neural-api#22",
    kinds="C03",
)
def _six_digits_checkpoint(patch: Patch) -> None:
    """A text file holds fewer digits than the weights have; losses look the same."""
    _saved_as(patch, change=_in_six_digits)


@_checkpoint(
    "checkpoint.head-untied",
    "a tied head is untied by resuming",
    "ckpt.roundtrip ckpt.resume",
    seen_in="NVIDIA-NeMo/Automodel#2511; vec2text/vec2text#94",
    kinds="C05",
    workloads=given(WINDOWED),
)
def _head_untied(patch: Patch) -> None:
    """Output and table are equal after resuming, and only one of them is trained from then on."""
    _resumed_as(patch, change=_untied)


@_checkpoint("checkpoint.digests-ignored", "changed bytes accepted", "ckpt.strict")
def _digests_ignored_checkpoint(patch: Patch) -> None:
    """Digests are written, and nobody compares them. Only a byte that changes shows it."""
    _digests_ignored(patch)


@_checkpoint("checkpoint.cut-filled", "a file that was cut accepted", "ckpt.strict")
def _cut_filled(patch: Patch) -> None:
    """What is missing at its end is taken for zeros."""
    # Fill a file that ends too early with zeros, and take it as it is.
    right = read_training

    def wrong(directory: Path) -> TrainingState:
        try:
            data = _filled((directory / FILE).read_bytes())
        except (OSError, ValueError):
            return right(directory)
        return read_checkpoint(data)

    _digests_ignored(patch)
    patch.replace(right, wrong)


@_checkpoint("checkpoint.missing-ignored", "no checkpoint, and no refusal", "ckpt.strict")
def _missing_ignored(patch: Patch) -> None:
    """Where there is no file, training silently goes on from what there is."""
    _resuming(patch, around=_silent_where_nothing_is)


@_checkpoint("checkpoint.half-applied", "weights replaced by a checkpoint that is refused", "ckpt.strict")
def _half_applied(patch: Patch) -> None:
    """They are filled in tensor by tensor, and a later one turns out to be damaged."""
    _resuming(patch, around=_weights_first)


@_checkpoint("checkpoint.step-moved-on", "a checkpoint that is refused moves the step on", "ckpt.strict")
def _step_moved_on(patch: Patch) -> None:
    """What is shown stays as it was, and the next step is corrected for another number of steps."""
    _resuming(patch, around=_step_first)


CHECKPOINT: Final = tuple(_checkpoint)
"""What is wrong with saving a training and going on from it."""
