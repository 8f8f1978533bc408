"""Steps of training, part by part: of the reference, of an engine, and what rounding does to each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.reference_training import ReferenceTraining
from cai_conformance.engines.tensor_names import answered_tensors
from cai_conformance.engines.training import TrainingEngine, TrainingSettings
from cai_conformance.measuring.distances import unit_in_last_place
from cai_conformance.measuring.reordering import can_reorder, reordered
from cai_conformance.measuring.training_probe import TrainingProbe, fresh_model
from cai_reference.arithmetic import STRICT, Array
from cai_reference.models.stack import DecoderStack

LOSS, GRADIENT, FIRST_MOMENT, SECOND_MOMENT, WEIGHTS = "loss", "gradient", "first moment", "second moment", "weights"
REORDERED_SEEDS: Final = (7, 8)
LEAST_FLOOR: Final = 2.0
"""No floor is below this: a handful of runs meets small sums, whose errors are few units, by chance only."""
MOST_FLOOR: Final = 128.0
"""No floor is above this: what moves with the order of rows or channels by more is a fault. Honest engines measured up
to 39 units, and in bfloat16 up to 4."""
MOST_PART: Final = 2.0**-4
"""Nor above this part of the largest number, in formats with few bits."""


@dataclass(frozen=True)
class TrainingPart:
    """One part of one step, from 1: its tensors by the reference's names; a loss is one number under its own name."""

    step: int
    kind: str
    tensors: Tensors


def reference_parts(opened: OpenedModel, probe: TrainingProbe) -> tuple[TrainingPart, ...]:
    """Return the parts of the reference's steps in strict arithmetic, in the order in which they are computed."""
    return reference_steps(fresh_model(opened.given), probe)


def reference_steps(model: DecoderStack, probe: TrainingProbe) -> tuple[TrainingPart, ...]:
    """Return the same of a model, which is trained."""
    training = ReferenceTraining(model, probe.settings, STRICT)
    parts: list[TrainingPart] = []
    for step in range(len(probe.batches)):
        batch = probe.batch(step)
        found = training.step(batch.inputs, batch.targets)
        parts += _step(step + 1, found.loss, found.gradients, found.first_moments, found.second_moments, found.weights)
    return tuple(parts)


def engine_parts(opened: OpenedModel, engine: TrainingEngine, probe: TrainingProbe) -> tuple[TrainingPart, ...]:
    """Return the parts of an engine's steps, in the same order.

    Raises:
        AnswerOutOfShape: tensors are missing, or have other shapes than the model's.
        EngineError: the engine failed.
    """
    opened.forget()
    opened.load()
    layout, name = opened.given.phase.weights_layout, opened.description.name
    wanted = values_of(opened.given.model)
    try:
        return engine_steps(
            engine, probe.settings_for(opened.given), probe, lambda found: answered_tensors(layout, found, wanted, name)
        )
    finally:
        # Whatever went wrong, the weights are no longer those that were loaded.
        opened.forget()


def engine_steps(
    engine: TrainingEngine,
    settings: TrainingSettings,
    probe: TrainingProbe,
    by_name: Callable[[Mapping[str, Array]], Tensors],
) -> tuple[TrainingPart, ...]:
    """Train an engine that has just loaded, and return the parts of its steps.

    Args:
        engine: which.
        settings: those of the probe, by the engine's names.
        probe: the batches.
        by_name: the engine's tensors by the reference's names.

    Raises:
        AnswerOutOfShape, EngineError: as `engine_parts`.
    """
    parts: list[TrainingPart] = []
    engine.start_training(settings)
    for step in range(len(probe.batches)):
        batch = probe.batch(step)
        gradients = engine.gradients(batch).gradients
        loss = engine.train_step(batch)
        state = engine.training_state()
        tensors = (gradients, state.first_moments, state.second_moments, state.weights)
        parts += _step(step + 1, loss, *map(by_name, tensors))
    return tuple(parts)


def values_of(model: DecoderStack) -> Tensors:
    """Return the values of a model's parameters by their names."""
    return {parameter.name: parameter.value for parameter in model.parameters}


def part_floors(
    opened: OpenedModel, engine: TrainingEngine, probe: TrainingProbe, base: Sequence[TrainingPart]
) -> tuple[float, ...]:
    """Return, part by part, by how many `rounding_units` a tensor moves when only rounding differs: the largest number.

    Raises:
        AnswerOutOfShape, EngineError: as `engine_parts`.
    """
    runs: list[Sequence[TrainingPart]] = []
    turned = probe
    for _ in range(len(probe.batches[0].stories) - 1):
        turned = turned.rotated()
        runs.append(engine_parts(opened, engine, turned))
    if can_reorder(opened.given.tensors):
        for seed in REORDERED_SEEDS:
            with opened.changed(f"reordered-{seed}", reordered(opened.given.tensors, seed)):
                moved = engine_parts(opened, engine, probe)
            runs.append([_moved_back(part, seed) for part in moved])
    precision = opened.description.precision.coarsest
    finer = [name for name in opened.description.precisions if MANTISSA_BITS[name] > MANTISSA_BITS[precision]]
    if finer:
        with opened.changed("plain", None, max(finer, key=lambda name: MANTISSA_BITS[name])):
            runs.append(engine_parts(opened, engine, probe))
    most = min(MOST_FLOOR, MOST_PART * 2.0 ** MANTISSA_BITS[precision])
    return tuple(
        min(max(LEAST_FLOOR, *(_distance(part, run[place], precision) for run in runs)), most)
        for place, part in enumerate(base)
    )


def rounding_units(part: TrainingPart, precision: str) -> Mapping[str, float]:
    """Return the unit in which each tensor of a part is measured.

    That is one unit in the last place of its largest number, and one of the largest number of the whole part: a
    gradient that is zero by symmetry is a sum of terms of that size.
    """
    largest = {name: float(np.max(np.abs(value))) for name, value in part.tensors.items()}
    whole = unit_in_last_place(max(largest.values()), precision)
    return {name: unit_in_last_place(value, precision) + whole for name, value in largest.items()}


def _distance(part: TrainingPart, other: TrainingPart, precision: str) -> float:
    """Return the largest distance of two tensors; 0 where the engine gave what is no number, which fails by itself."""
    units = rounding_units(part, precision)
    distances = (
        float(np.max(np.abs(value - other.tensors[name]))) / units[name] for name, value in part.tensors.items()
    )
    return max((distance for distance in distances if math.isfinite(distance)), default=0.0)


def _step(
    step: int, loss: float, gradients: Tensors, first: Tensors, second: Tensors, weights: Tensors
) -> Iterator[TrainingPart]:
    yield TrainingPart(step, LOSS, {LOSS: np.array([loss])})
    for kind, tensors in ((GRADIENT, gradients), (FIRST_MOMENT, first), (SECOND_MOMENT, second), (WEIGHTS, weights)):
        yield TrainingPart(step, kind, tensors)


def _moved_back(part: TrainingPart, seed: int) -> TrainingPart:
    if part.kind == LOSS:
        return part
    return TrainingPart(part.step, part.kind, reordered(part.tensors, seed, back=True))
