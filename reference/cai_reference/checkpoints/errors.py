"""Errors of the checkpoints room. A checkpoint that raises one is refused as a whole; nothing is changed.

Sources: course, chapter 35 (the variants and what their texts carry); the rest is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError

Shape = tuple[int, ...]


class CheckpointError(CaiReferenceError):
    """A checkpoint cannot be written or read."""


class OptimizerStateError(CheckpointError):
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
