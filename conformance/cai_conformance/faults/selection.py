"""Faults of a run that selects: the rate of each update, and which state is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, run
from cai_reference.arithmetic import Arithmetic
from cai_reference.training.adamw import AdamW
from cai_reference.training.decoder_training import StoryModel
from cai_reference.training.model_kinds import assign_all
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import LossCheckpoint, SelectedRun, SelectionPlan

Selected = SelectedRun[Any]
"""A run of any model that can be selected."""


def _selected(patch: Patch, changed: Callable[[Selected], Selected]) -> None:
    right = SelectionPlan.run

    def wrong(plan: SelectionPlan, model: Any, optimizer: AdamW, arithmetic: Arithmetic) -> Selected:
        return changed(right(plan, model, optimizer, arithmetic))

    patch.replace((SelectionPlan, "run"), wrong)


def _last(found: Selected) -> Selected:
    return replace(_values_of_last(found), selected=found.final)


def _values_of_last(found: Selected) -> Selected:
    assign_all(found.selected_model.parameters, found.final.values)
    return found


def _rates(patch: Patch, step_of: Callable[[int], int]) -> None:
    right = SteppedRate.rate

    def wrong(schedule: SteppedRate, step: int, arithmetic: Arithmetic) -> float:
        return right(schedule, step_of(step), arithmetic)

    patch.replace((SteppedRate, "rate"), wrong)


def _one_late(step: int) -> int:
    return max(1, step - 1)


def _first(step: int) -> int:
    return 1


_selection = Family(frozenset({Place.SELECTION}), run(COURSE))


@_selection("selection.last-kept", "the last state is kept", "run.selection")
def _last_kept(patch: Patch) -> None:
    """Losses are computed, and nobody compares them. Runs that get better to the end hide it."""
    _selected(patch, changed=_last)


@_selection("selection.values-go-on", "the state that is kept goes on being trained", "fwd.stage run.decode")
def _values_go_on(patch: Patch) -> None:
    """The best step is named rightly, and its values are not copied, so that later updates change them."""
    _selected(patch, changed=_values_of_last)


@_selection("selection.measured-on-training", "the validation loss is measured on training windows", "run.golden")
def _measured_on_training(patch: Patch) -> None:
    """The state that has learned most by heart is kept."""
    right = SelectionPlan._measure

    def wrong(plan: SelectionPlan, step: int, model: StoryModel, arithmetic: Arithmetic) -> LossCheckpoint:
        found = right(plan, step, model, arithmetic)
        return replace(found, validation=found.train)

    patch.replace((SelectionPlan, "_measure"), wrong)


@_selection("schedule.one-late", "each rate one step late", "run.golden")
def _one_late_schedule(patch: Patch) -> None:
    """Steps are counted from 0 where the schedule counts from 1."""
    _rates(patch, step_of=_one_late)


@_selection("schedule.constant", "the rate never changes", "run.selection run.golden")
def _constant(patch: Patch) -> None:
    """The schedule is built and not asked."""
    _rates(patch, step_of=_first)


SELECTION: Final = tuple(_selection)
"""What is wrong with rates and selection."""
