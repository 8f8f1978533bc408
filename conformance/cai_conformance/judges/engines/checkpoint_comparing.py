"""Comparing what two trainings left: by their bits, unless the engine says that chance moves them.

Of an engine that says so, the floor of each part is measured: one training in a row, and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.engines.training import OptimizerState
from cai_conformance.judges.engines.training import record_of, tensor_difference
from cai_conformance.measuring.policy import FACTOR
from cai_conformance.measuring.training_parts import (
    FIRST_MOMENT,
    LEAST_FLOOR,
    LOSS,
    MOST_FLOOR,
    MOST_PART,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
    rounding_units,
)
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic import Array


@dataclass(frozen=True)
class After:
    """What a step left.

    Attributes:
        step: from 1.
        loss: before the step; None where only the state is known.
        state: weights and moments.
    """

    step: int
    loss: float | None
    state: OptimizerState

    @property
    def parts(self) -> Iterator[TrainingPart]:
        """The loss if it is known, weights, and both moments."""
        if self.loss is not None:
            yield TrainingPart(self.step, LOSS, {LOSS: np.array([self.loss])})
        state = self.state
        for kind, tensors in (
            (WEIGHTS, state.weights),
            (FIRST_MOMENT, state.first_moments),
            (SECOND_MOMENT, state.second_moments),
        ):
            yield TrainingPart(self.step, kind, dict(tensors))


@dataclass(frozen=True)
class Tolerance:
    """By how much parts may differ: not at all, or by some of their floors.

    Attributes:
        precision: the format whose units are counted.
        floors: in `rounding_units`, by step and kind; empty where bits are compared.
        factor: how many of them are allowed.
    """

    precision: str
    floors: Mapping[tuple[int, str], float] = field(default_factory=dict)
    factor: float = FACTOR

    @property
    def words(self) -> str:
        """How things were compared."""
        return "within the measured rounding" if self.floors else "in every bit"

    def difference(self, right: After, found: After) -> Difference | None:
        """Return the first thing that differs; a loss that either side does not know is not looked at."""
        others = {part.kind: part for part in found.parts}
        for part in right.parts:
            if part.kind in others:
                different = self._of_part(part, others[part.kind])
                if different is not None:
                    return different
        return None

    def _of_part(self, right: TrainingPart, found: TrainingPart) -> Difference | None:
        floor = self.floors.get((right.step, right.kind))
        units = {} if floor is None else rounding_units(right, self.precision)
        for name in [*right.tensors, *(name for name in found.tensors if name not in right.tensors)]:
            record = record_of(right, name)
            if name not in found.tensors or name not in right.tensors:
                return Difference(Problem.MISSING if name not in found.tensors else Problem.EXTRA, record)
            value, other = right.tensors[name], found.tensors[name]
            if value.shape != other.shape:
                shapes = f"shape {list(value.shape)}", f"shape {list(other.shape)}"
                return Difference(Problem.SHAPE, record, "", None, *shapes)
            index = _first(value, other, 0.0 if floor is None else self.factor * floor * units[name])
            if index is not None:
                return tensor_difference(right, name, index, float(other.flat[index]))
        return None


def exact(precision: str) -> Tolerance:
    """Return that no bit may differ."""
    return Tolerance(precision)


def measured(runs: Sequence[Sequence[After]], precision: str) -> Tolerance:
    """Return what differs between equal trainings, the first of which is held against the others."""
    floors: dict[tuple[int, str], float] = {}
    most = min(MOST_FLOOR, MOST_PART * 2.0 ** MANTISSA_BITS[precision])
    for place, after in enumerate(runs[0]):
        for part in after.parts:
            units, floor = rounding_units(part, precision), LEAST_FLOOR
            for run in runs[1:]:
                other = next(each for each in run[place].parts if each.kind == part.kind)
                floor = max(floor, *(_distance(part, other, name) / units[name] for name in part.tensors))
            floors[after.step, part.kind] = min(floor, most)
    return Tolerance(precision, floors)


def moved(before: OptimizerState, after: OptimizerState) -> int:
    """Return how many tensors of weights differ."""
    return sum(
        name not in after.weights or value.tobytes() != after.weights[name].tobytes()
        for name, value in before.weights.items()
    )


def with_moments(state: OptimizerState) -> int:
    """Return how many tensors have both moments, neither of them nothing but zeros."""
    second = state.second_moments
    return sum(
        bool(value.any()) and name in second and bool(second[name].any()) for name, value in state.first_moments.items()
    )


def _distance(part: TrainingPart, other: TrainingPart, name: str) -> float:
    """Return the largest distance of a tensor; 0 where it is no number, which fails by itself."""
    if name not in other.tensors or other.tensors[name].shape != part.tensors[name].shape:
        return 0.0
    distances = np.abs(part.tensors[name] - other.tensors[name])
    return float(np.max(distances, initial=0.0, where=np.isfinite(distances)))


def _first(value: Array, other: Array, allowed: float) -> int | None:
    """Return the place of the first number that is another one, row by row; None if there is none."""
    if value.tobytes() == other.tobytes():
        return None
    if allowed > 0.0:
        wrong = ~(np.abs(value - other) <= allowed)
    else:
        wrong = np.ascontiguousarray(value).view(np.uint64) != np.ascontiguousarray(other).view(np.uint64)
    return int(np.argmax(wrong)) if bool(wrong.any()) else None
