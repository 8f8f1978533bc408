"""Chapter 33: training with selection by validation loss.

The run is made twice, by `SelectionPlan.run` and by `watched_run`; every `true` of the PROOF line is looked up in what
the two left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from cai_course import small_decoder as small
from cai_course.records import CourseRecord, Separator, fixed, fixed_list, joined, record, trace_bytes
from cai_course.watching import WatchedRun, WatchedUpdate, same_bits, watched_run
from cai_reference.arithmetic import Arithmetic
from cai_reference.models.llama import Llama
from cai_reference.text.batches import Batch, Epoch
from cai_reference.training.errors import CandidateError
from cai_reference.training.selection import LossCheckpoint, SelectedRun, SelectionPlan

RUNTIME_LIMIT_MS: Final = 10_000
"""What the course grants its own program; nothing here is timed."""


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    plan = small.selection_plan()
    run = small.selected_run(arithmetic)
    model, optimizer = small.fresh()
    given = [parameter.value.tobytes() for parameter in model.parameters]
    watched = watched_run(plan, model, optimizer, arithmetic)
    unchanged = (
        given == [parameter.value.tobytes() for parameter in model.parameters]
        and optimizer.state.step == 0
        and not optimizer.state.moments
    )
    return trace_bytes(Separator.BAR, _records(plan, run, watched, unchanged, arithmetic))


def selection_rejects_test(arithmetic: Arithmetic) -> bool:
    """Tell whether selection refuses windows of the test partition in each of its three roles."""
    plan = small.selection_plan()
    test = small.sequential(small.epoch("test"), small.TEST_BATCH)
    plans = (replace(plan, updates=test), replace(plan, train_evaluation=test), replace(plan, validation=test))
    return all(_refuses(wrong, arithmetic) for wrong in plans)


def _refuses(plan: SelectionPlan, arithmetic: Arithmetic) -> bool:
    try:
        plan.run(*small.fresh(), arithmetic)
    except CandidateError as error:
        if error.code != "wrong-partition":
            raise
        return error.fields["actual"] == "test"
    return False


def _records(
    plan: SelectionPlan, run: SelectedRun[Llama], watched: WatchedRun, unchanged: bool, arithmetic: Arithmetic
) -> Iterator[CourseRecord]:
    selected = run.selected_checkpoint
    snapshot = run.selected.matches(run.selected_model.parameters)
    rejected = selection_rejects_test(arithmetic)
    yield record("TRAINING_SELECTION_TRACE_V1")
    yield record(
        "CONFIG",
        seed=small.SEED,
        updates=plan.rates.steps,
        batch_size=small.BATCH,
        context=small.CONTEXT,
        validation_every=plan.checkpoints[1] - plan.checkpoints[0],
        clip_norm=fixed(plan.maximum_norm, 6),
        runtime_limit_ms=RUNTIME_LIMIT_MS,
    )
    yield record("ORDER", events=">".join(watched.updates[0].events))
    yield from _schedule(plan)
    for update in watched.updates:
        yield _update(plan.updates.epoch, update)
    yield _axis(run.checkpoints)
    for checkpoint in watched.checkpoints:
        losses = checkpoint.losses
        yield record(
            "CHECKPOINT",
            step=losses.step,
            train_loss=fixed(losses.train, 6),
            validation_loss=fixed(losses.validation, 6),
            selected=losses.step == run.selected.step,
            train_graphs=checkpoint.train_nodes,
            validation_graphs=checkpoint.validation_nodes,
        )
    yield record(
        "SELECT",
        step=selected.step,
        validation_loss=fixed(selected.validation, 6),
        criterion="validation-only",
        snapshot=snapshot,
        test_partition_rejected=rejected,
    )
    yield record(
        "PROOF",
        fixed_seed_batches=[one.update.batch for one in watched.updates] == _planned_batches(plan),
        schedule_exact=[one.update.learning_rate for one in watched.updates]
        == [rate for rate, steps in plan.rates.stages for _ in range(steps)],
        finite_gradients=all(one.finite for one in watched.updates),
        parameter_nodes_preserved=all(one.nodes_preserved for one in watched.updates),
        cleared_gradients=all(one.cleared for one in watched.updates),
        clipping_observed=any(one.update.clip.clipped for one in watched.updates),
        train_loss_decreased=run.checkpoints[-1].train < run.checkpoints[0].train,
        validation_no_grad=not any(one.train_nodes or one.validation_nodes for one in watched.checkpoints),
        selection_matches_argmin=selected == min(run.checkpoints, key=lambda one: one.validation),
        test_partition_rejected=rejected,
        replay_bitwise=_replays(run, watched),
        input_unchanged=unchanged,
    )
    yield record("END_TRAINING_SELECTION_TRACE")


def _schedule(plan: SelectionPlan) -> Iterator[CourseRecord]:
    start = 1
    for rate, steps in plan.rates.stages:
        yield record("SCHEDULE", start=start, end=start + steps - 1, learning_rate=fixed(rate, 6))
        start += steps


def _update(windows: Epoch, watched: WatchedUpdate) -> CourseRecord:
    update, clip = watched.update, watched.update.clip
    return record(
        "UPDATE",
        step=update.step,
        batch=joined(f"{windows.documents[slot.document].identifier}@{slot.start}" for slot in update.batch),
        learning_rate=fixed(update.learning_rate, 6),
        train_loss=fixed(update.loss, 6),
        grad_norm_before=fixed(clip.before, 6),
        grad_norm_after=fixed(clip.after, 6),
        clipped=clip.clipped,
        finite=watched.finite,
        nodes_preserved=watched.nodes_preserved,
        cleared=watched.cleared,
    )


def _axis(checkpoints: Iterable[LossCheckpoint]) -> CourseRecord:
    """Return the axis of the chapter's figure: all losses, out to the next tenths."""
    losses = [loss for checkpoint in checkpoints for loss in (checkpoint.train, checkpoint.validation)]
    low, high = math.floor(min(losses) * 10.0) / 10.0, math.ceil(max(losses) * 10.0) / 10.0
    high = high if high > low else low + 0.1
    ticks = (low, (low + high) / 2.0, high)
    return record("AXIS", min=fixed(low, 6), max=fixed(high, 6), ticks=fixed_list(ticks, 6))


def _planned_batches(plan: SelectionPlan) -> Sequence[Batch]:
    """Return the batches of as many steps, drawn once more from the seed."""
    drawn = small.shuffled(small.epoch("train"), small.BATCH, small.SEED).plan
    return [drawn[step % len(drawn)] for step in range(plan.rates.steps)]


def _replays(run: SelectedRun[Llama], watched: WatchedRun) -> bool:
    """Tell whether both runs agree in every update, loss and bit of the selected and the last state."""
    states = {state.step: state for state in watched.states}
    return (
        run.updates == tuple(one.update for one in watched.updates)
        and run.checkpoints == tuple(one.losses for one in watched.checkpoints)
        and same_bits(run.selected, states[run.selected.step])
        and same_bits(run.final, watched.states[-1])
    )
