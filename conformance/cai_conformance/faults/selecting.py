"""Faults of a run that selects: the rate of each update, and which state is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, run
from cai_reference.arithmetic import Arithmetic
from cai_reference.training.adamw import AdamW
from cai_reference.training.copies import assign_all
from cai_reference.training.decoder_training import StoryModel
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import LossCheckpoint, SelectedRun, SelectionPlan

SELECTION: Final = frozenset({Place.SELECTION})
Selected = SelectedRun[Any]
"""A run of any model that can be selected."""


def _selected(planting: Planting, changed: Callable[[Selected], Selected]) -> None:
    right = SelectionPlan.run

    def wrong(plan: SelectionPlan, model: Any, optimizer: AdamW, arithmetic: Arithmetic) -> Selected:
        return changed(right(plan, model, optimizer, arithmetic))

    planting.method(SelectionPlan, "run", wrong)


def _last(found: Selected) -> Selected:
    return replace(_values_of_last(found), selected=found.final)


def _values_of_last(found: Selected) -> Selected:
    assign_all(found.selected_model.parameters, found.final.values)
    return found


def _measured_on_training(planting: Planting) -> None:
    right = SelectionPlan._measure

    def wrong(plan: SelectionPlan, step: int, model: StoryModel, arithmetic: Arithmetic) -> LossCheckpoint:
        found = right(plan, step, model, arithmetic)
        return replace(found, validation=found.train)

    planting.method(SelectionPlan, "_measure", wrong)


def _rates(planting: Planting, step_of: Callable[[int], int]) -> None:
    right = SteppedRate.rate

    def wrong(schedule: SteppedRate, step: int, arithmetic: Arithmetic) -> float:
        return right(schedule, step_of(step), arithmetic)

    planting.method(SteppedRate, "rate", wrong)


def _one_late(step: int) -> int:
    return max(1, step - 1)


def _first(step: int) -> int:
    return 1


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...],
    kinds: tuple[str, ...] = (),
) -> Fault:
    return Fault(slug, title, story, precedent, SELECTION, plant, "", kinds, run(COURSE), expected)


SELECTING: Final = (
    _fault(
        "selection.last-kept",
        "the last state is kept",
        "Losses are computed, and nobody compares them. Runs that get better to the end hide it.",
        "",
        partial(_selected, changed=_last),
        ("run.selection",),
    ),
    _fault(
        "selection.values-go-on",
        "the state that is kept goes on being trained",
        "The best step is named rightly, and its values are not copied, so that later updates change them.",
        "",
        partial(_selected, changed=_values_of_last),
        ("fwd.stage", "run.decode"),
    ),
    _fault(
        "selection.measured-on-training",
        "the validation loss is measured on training windows",
        "The state that has learned most by heart is kept.",
        "",
        _measured_on_training,
        ("run.golden",),
    ),
    _fault(
        "schedule.one-late",
        "each rate one step late",
        "Steps are counted from 0 where the schedule counts from 1.",
        "",
        partial(_rates, step_of=_one_late),
        ("run.golden",),
    ),
    _fault(
        "schedule.constant",
        "the rate never changes",
        "The schedule is built and not asked.",
        "",
        partial(_rates, step_of=_first),
        ("run.selection", "run.golden"),
    ),
)
"""What is wrong with rates and selection."""
