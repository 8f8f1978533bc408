"""Errors of the state of a training run: an optimiser's, and that of a run that is to go on.

Sources: course, chapter 35, for the optimiser; the rest is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.training.errors import Shape, TrainingError


class OptimizerStateError(TrainingError):
    """The state of an optimiser does not fit itself or its model."""


@dataclass(eq=False)
class InvalidBetaPower(OptimizerStateError):
    """A running product of β is 1 before the first step, and in [0, 1) after it."""

    template = "the power of {name} after {step} steps is {value}"
    name: str
    value: float
    step: int


@dataclass(eq=False)
class MomentPresence(OptimizerStateError):
    """There are moments exactly from the first step on."""

    template = "after {step} steps there are moments of {entries} parameters"
    step: int
    entries: int


@dataclass(eq=False)
class MomentNames(OptimizerStateError):
    """The moments are not those of the model's parameters. Names are sorted."""

    template = "expected moments of {expected}, found those of {actual}"
    expected: tuple[str, ...]
    actual: tuple[str, ...]


@dataclass(eq=False)
class MomentShape(OptimizerStateError):
    """A moment has another shape than its parameter."""

    template = "parameter {name!r} has shape {parameter}, its {kind} moment {moment}"
    name: str
    kind: str
    parameter: Shape
    moment: Shape


@dataclass(eq=False)
class NonFiniteMoment(OptimizerStateError):
    """A moment is not finite."""

    template = "parameter {name!r}: the {kind} moment at flat index {index} is {value}"
    name: str
    kind: str
    index: int
    value: float


@dataclass(eq=False)
class NegativeSecondMoment(OptimizerStateError):
    """A mean of squares is negative."""

    template = "parameter {name!r}: the second moment at flat index {index} is {value}"
    name: str
    index: int
    value: float


@dataclass(eq=False)
class GroupNames(OptimizerStateError):
    """The groups do not name the model's parameters. Names are sorted."""

    template = "expected groups of {expected}, found groups of {actual}"
    expected: tuple[str, ...]
    actual: tuple[str, ...]


class ResumeError(TrainingError):
    """A run cannot go on from a state. The run is as it was."""


@dataclass(eq=False)
class StateDiffers(ResumeError):
    """The state is of a run that was set up otherwise."""

    template = "the {part} of the state is {found}, that of the run {expected}"
    part: str
    expected: str
    found: str


@dataclass(eq=False)
class StateSteps(ResumeError):
    """A run and its optimiser make their steps together."""

    template = "the state is after step {step}, but its optimiser has made {optimizer} steps"
    step: int
    optimizer: int


@dataclass(eq=False)
class StateTooSmall(ResumeError):
    """The sizes of the configuration ask for more weights than there are."""

    template = "a model of this configuration has at least {least} weights, the state {found}"
    least: int
    found: int


@dataclass(eq=False)
class StateValues(ResumeError):
    """The state has other parameters than its configuration. Names are in registry order."""

    template = "expected the parameters {expected}, found {found}"
    expected: tuple[str, ...]
    found: tuple[str, ...]


@dataclass(eq=False)
class StateShape(ResumeError):
    """A value has another shape than its parameter."""

    template = "parameter {name!r} has shape {expected}, its value in the state {found}"
    name: str
    expected: Shape
    found: Shape


@dataclass(eq=False)
class StateValueNotFinite(ResumeError):
    """A value is not finite."""

    template = "parameter {name!r}: the value at flat index {index} is {value}"
    name: str
    index: int
    value: float


@dataclass(eq=False)
class OrderOutOfRange(ResumeError):
    """A place in the data that does not exist."""

    template = "epoch {epoch} has no batch {batch}: epochs count from 0, and have batches 0 to {last}"
    epoch: int
    batch: int
    last: int


@dataclass(eq=False)
class NoExamples(ResumeError):
    """There is nothing to train on."""

    template = "there are no examples to train on"
