"""From stories to the decoder of the course: windows of whole length, and the model with the smallest validation loss.

Windows never leave their story and are never padded, so that stories shorter than a window have none. Batches are taken
in the order of one shuffle, and from its start again where updates outnumber them (course, chapter 33).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cai_conformance.backends.decoder.course_plan import CourseTraining
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.step_record import StepRecord, UpdateFacts
from cai_conformance.errors import FixtureError
from cai_reference.arithmetic import Arithmetic, Array, sha256_of
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.training import AdamW, Moments
from cai_reference.training.copies import Snapshot
from cai_reference.training.decay_groups import all_but_gains
from cai_reference.training.planned_epoch import PlannedEpoch
from cai_reference.training.selection import LossCheckpoint, SelectedRun, SelectionPlan

Story = tuple[int, ...]


@dataclass(frozen=True)
class CourseEpochs:
    """The windows that are trained on, and those of the two losses."""

    updates: PlannedEpoch
    train_evaluation: PlannedEpoch
    validation: PlannedEpoch


@dataclass(frozen=True)
class CourseRun:
    """A run: its windows, the model that was selected with the losses of its step, and all checkpoints."""

    epochs: CourseEpochs
    model: Llama
    selected: LossCheckpoint
    steps: tuple[StepRecord, ...]


def course_epochs(
    training: CourseTraining, sizes: Sizes, train: Sequence[Story], validation: Sequence[Story]
) -> CourseEpochs:
    """Cut the windows of both parts.

    Raises:
        FixtureError: a part has no story that is longer than a window.
    """
    everything = _epoch("train", train, Windowing(sizes.context, training.stride))
    evaluated = _epoch("train", train[: sizes.evaluation_stories], Windowing(sizes.context, training.evaluation_stride))
    selecting = _epoch("validation", validation, Windowing(sizes.context, training.evaluation_stride))
    for epoch in (everything, evaluated, selecting):
        if not epoch.slots():
            raise FixtureError("Windows", f"no {epoch.partition} story is longer than {sizes.context} tokens")
    return CourseEpochs(
        PlannedEpoch(everything, shuffled_plan(everything, sizes.batch, SplitMix64(sizes.order_seed))),
        PlannedEpoch(evaluated, sequential_plan(evaluated, sizes.evaluation_batch)),
        PlannedEpoch(selecting, sequential_plan(selecting, sizes.evaluation_batch)),
    )


def train_course(
    phase: DecodePhase,
    training: CourseTraining,
    sizes: Sizes,
    epochs: CourseEpochs,
    vocabulary: int,
    arithmetic: Arithmetic,
) -> CourseRun:
    """Initialise and train the model.

    Raises:
        CaiReferenceError: a number left the range of binary64, or a size does not fit.
    """
    model = phase.initialized(sizes, vocabulary, SplitMix64(sizes.init_seed))
    assert isinstance(model, Llama)
    optimizer = AdamW(sizes.optimizer, all_but_gains(model.parameters))
    plan = SelectionPlan(
        epochs.updates,
        epochs.train_evaluation,
        epochs.validation,
        training.schedule(sizes.steps),
        training.checkpoints(sizes.steps),
        sizes.clip,
    )
    run = plan.run(model, optimizer, arithmetic)
    kept = {0: Snapshot.of(0, model.parameters, optimizer), run.selected.step: run.selected, run.final.step: run.final}
    steps = tuple(_step(found, run, kept.get(found.step)) for found in run.checkpoints)
    return CourseRun(epochs, run.selected_model, run.selected_checkpoint, steps)


def course_replay(
    phase: DecodePhase,
    training: CourseTraining,
    sizes: Sizes,
    epochs: CourseEpochs,
    vocabulary: int,
    arithmetic: Arithmetic,
) -> bool:
    """Train twice from scratch, and tell whether losses, parameters and moments have the same bits at every step.

    Losses are those of one batch each, so that a few updates cost little.
    """
    one_batch = {name: _first_batch(getattr(epochs, name)) for name in ("train_evaluation", "validation")}
    fewer = replace(epochs, **one_batch)
    runs = [train_course(phase, training, sizes, fewer, vocabulary, arithmetic) for _ in range(2)]
    return runs[0].steps == runs[1].steps


def _epoch(partition: str, stories: Sequence[Story], windowing: Windowing) -> Epoch:
    documents = tuple(
        EncodedDocument(f"{partition}-{number}", partition, story) for number, story in enumerate(stories)
    )
    return Epoch(partition, documents, windowing)


def _first_batch(planned: PlannedEpoch) -> PlannedEpoch:
    return replace(planned, plan=planned.plan[:1])


def _step(found: LossCheckpoint, run: SelectedRun[Llama], state: Snapshot | None) -> StepRecord:
    """Return what is known of a checkpoint; digests where its state was kept."""
    facts = UpdateFacts(0.0, 0.0, 0)
    if found.step:
        update, before = run.updates[found.step - 1], run.updates[: found.step]
        facts = UpdateFacts(update.learning_rate, update.clip.before, sum(each.clip.clipped for each in before))
    parameters = sha256_of(state.values) if state is not None else None
    moments = sha256_of(_moments(run, state)) if state is not None else None
    return StepRecord(found.step, found.train, found.validation, parameters, moments, facts)


def _moments(run: SelectedRun[Llama], state: Snapshot) -> list[Array]:
    """Return all first moments, then all second ones, in registry order; zeros where no step was made."""
    stored = state.optimizer.moments
    zeros = [Moments(np.zeros(each.shape), np.zeros(each.shape)) for each in run.selected_model.parameters]
    names = [parameter.name for parameter in run.selected_model.parameters]
    found = [stored.get(name, empty) for name, empty in zip(names, zeros, strict=True)]
    return [moments.first for moments in found] + [moments.second for moments in found]
