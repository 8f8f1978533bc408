"""Steps of training, part by part: what an engine is asked, its answers and the reference's, and what rounding does.

Batches are ragged with repeated ids, and the settings are such that every term shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_conformance.backends.engine.files import answered_tensors, file_names
from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.backends.reference.training import ReferenceTraining, loss_and_gradients
from cai_conformance.checks.tolerance.distance import unit_in_last_place
from cai_conformance.checks.tolerance.reordering import can_reorder, reordered
from cai_conformance.engine import MANTISSA_BITS, TrainingBatch, TrainingEngine, TrainingSettings
from cai_conformance.fixtures.given_weights import Tensors, read_given
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.story_batches import StoryBatch
from cai_reference.text.tokenizer import BOS, EOS

LENGTHS: Final = ((12, 6, 9), (5, 11, 10), (9, 5, 7))
"""How many tokens the stories of each batch have: ragged, so that there is padding."""
FIRST_CONTENT: Final = 2
SEED: Final = 301
RATE, BETA_1, BETA_2, EPSILON, DECAY = 0.01, 0.9, 0.99, 1e-4, 0.1
"""Epsilon and decay are large, so that a wrong place for either shows."""


@dataclass(frozen=True)
class TrainingProbe:
    """Batches, one a step, and settings whose decayed tensors have the reference's names."""

    batches: tuple[StoryBatch, ...]
    settings: TrainingSettings
    heads: int

    @classmethod
    def of(cls, given: GivenModel) -> TrainingProbe:
        """Draw batches, and clip at half the first gradient's norm, so that clipping is active."""
        heads = given.sizes.futures if given.phase.futures else 1
        generator, vocabulary = SplitMix64(SEED), given.model.configuration.vocabulary
        batches = tuple(
            StoryBatch(tuple(_story(generator, vocabulary, length) for length in lengths), max(lengths) - 1)
            for lengths in LENGTHS
        )
        first = TrainingBatch.of(batches[0], heads)
        _, gradients = loss_and_gradients(fresh_model(given), first.inputs, first.targets, STRICT)
        norm = float(np.sqrt(sum(float(np.sum(value * value)) for value in gradients.values())))
        decayed = decayed_names(given.model.parameters)
        settings = TrainingSettings(RATE, BETA_1, BETA_2, EPSILON, DECAY, round(norm / 2.0, 3), decayed)
        return cls(batches, settings, heads)

    def rotated(self) -> TrainingProbe:
        """Return the same question with the rows of each batch in another order."""
        batches = tuple(StoryBatch((*each.stories[1:], each.stories[0]), each.width) for each in self.batches)
        return replace(self, batches=batches)

    def batch(self, step: int) -> TrainingBatch:
        """Return the batch of a step, from 0."""
        return TrainingBatch.of(self.batches[step], self.heads)

    def settings_for(self, given: GivenModel) -> TrainingSettings:
        """Return the settings with the names of the model folder's file."""
        return replace(self.settings, decayed=file_names(given.phase.weights_layout, self.settings.decayed))


def fresh_model(given: GivenModel) -> DecoderStack:
    """Return a copy of the reference's model that may be trained."""
    return read_given(given.phase, given.sizes, given.weights)


def _story(generator: SplitMix64, vocabulary: int, length: int) -> tuple[int, ...]:
    """Return BOS, drawn ids of which the last repeats the first, and EOS."""
    drawn = [FIRST_CONTENT + below(generator, vocabulary - FIRST_CONTENT) for _ in range(length - 3)]
    return (BOS, *drawn, drawn[0], EOS)


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
        EngineError (answer-out-of-shape): tensors are missing, or have other shapes than the model's.
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
        `answer-out-of-shape`, EngineError: as `engine_parts`.
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
        `answer-out-of-shape`, EngineError: as `engine_parts`.
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
