"""Learning-rate schedules: the rate of step s, with s counted from 1.

Every schedule gives the first update the rate of step 1, and a rate of 0 does not exist: an update that changes nothing
is not made. A schedule has no state; where a run stands in it is the number of updates made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from cai_reference.arithmetic import Arithmetic
from cai_reference.training.errors import TrainingError


@dataclass(frozen=True)
class ConstantRate:
    """The same rate at every step.

    Raises:
        TrainingError (invalid-scheduled-rate): the rate is not finite and positive.
    """

    value: float

    def __post_init__(self) -> None:
        _check_rate(1, self.value)

    def rate(self, step: int, arithmetic: Arithmetic) -> float:
        """Return the rate of a step, the first of which is 1; raises `step-before-first`."""
        _check_step(step)
        return self.value


@dataclass(frozen=True)
class SteppedRate:
    """One rate after the other, each for so many steps; it ends with the last one (course, chapter 33).

    SteppedRate(((0.04, 2), (0.025, 1)))  →  0.04, 0.04, 0.025

    Raises:
        TrainingError (empty-schedule): there are no stages.
        TrainingError (invalid-scheduled-rate, invalid-schedule-length): of a stage, named by its first step.
    """

    stages: tuple[tuple[float, int], ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise TrainingError("empty-schedule")
        step = 1
        for value, steps in self.stages:
            _check_rate(step, value)
            if steps < 1:
                raise TrainingError("invalid-schedule-length", what="a stage", steps=steps, least=1)
            step += steps

    @property
    def steps(self) -> int:
        """How many steps have a rate."""
        return sum(steps for _, steps in self.stages)

    def rate(self, step: int, arithmetic: Arithmetic) -> float:
        """Return the rate of the stage that the step lies in; raises `step-before-first`, `step-behind-schedule`."""
        _check_step(step)
        last = 0
        for value, steps in self.stages:
            last += steps
            # the last step of a stage still has its rate
            if step <= last:
                return value
        raise TrainingError("step-behind-schedule", step=step, last=last)


class DecayShape(StrEnum):
    """How a rate falls from its peak to its floor, by the share p of the decay that is over."""

    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(frozen=True)
class WarmupDecay:
    """Up in a straight line, down to a floor, and on at the floor.

    With w warm-up steps of n steps in all, and p = (s − w) / (n − w)::

        s ≤ w         peak · (s / w)                              so step 1 has peak / w, and step w the peak itself
        w < s < n     floor + (peak − floor) · (1 − p)            linear
                      floor + (peak − floor) · (½ · (1 + cos πp)) cosine
        s ≥ n         floor

    (Loshchilov and Hutter, "SGDR", 2017, for the cosine.) Programs that count steps from 0 give their first update a
    rate of 0, or that of step 1 here; which one is worth asking.

    Attributes:
        peak: the largest rate.
        floor: the last rate, not above the peak.
        warmup: w, 0 for none.
        steps: n.
        shape: of the way down.

    Raises:
        TrainingError (invalid-scheduled-rate, invalid-schedule-floor, invalid-schedule-length): looked at in this
            order.
    """

    peak: float
    floor: float
    warmup: int
    steps: int
    shape: DecayShape = DecayShape.COSINE

    def __post_init__(self) -> None:
        _check_rate(max(self.warmup, 1), self.peak)
        if not 0.0 < self.floor <= self.peak:
            raise TrainingError("invalid-schedule-floor", value=self.floor, peak=self.peak)
        if self.warmup < 0:
            raise TrainingError("invalid-schedule-length", what="the warm-up", steps=self.warmup, least=0)
        if self.steps < max(self.warmup, 1):
            raise TrainingError(
                "invalid-schedule-length", what="the schedule", steps=self.steps, least=max(self.warmup, 1)
            )

    def rate(self, step: int, arithmetic: Arithmetic) -> float:
        """Return the rate of the formulas above; raises `step-before-first`, `step-behind-schedule`."""
        _check_step(step)
        if step <= self.warmup:
            return self.peak * (float(step) / float(self.warmup))
        if step >= self.steps:
            return self.floor
        over = float(step - self.warmup) / float(self.steps - self.warmup)
        cosine = self.shape is DecayShape.COSINE
        # the share of the way down that is still left
        left = 0.5 * (1.0 + float(arithmetic.cos(math.pi * over))) if cosine else 1.0 - over
        return self.floor + (self.peak - self.floor) * left


AnySchedule: TypeAlias = ConstantRate | SteppedRate | WarmupDecay
"""The schedules of this file, which a checkpoint can hold."""


def _check_rate(step: int, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise TrainingError("invalid-scheduled-rate", step=step, value=value)


def _check_step(step: int) -> None:
    if step < 1:
        raise TrainingError("step-before-first", step=step)
