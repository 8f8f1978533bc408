"""Errors of a training run that selects by validation loss. All but the last are raised before any forward pass.

Source: course, chapter 33 (the variants and what their texts carry).
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.training.errors import TrainerError


class SelectionError(TrainerError):
    """A run with validation-only selection is refused."""


@dataclass(eq=False)
class OptimizerNotFresh(SelectionError):
    """A run starts from an optimiser that has made no step."""

    template = "the optimiser has made {step} steps; a run starts with a fresh one"
    step: int


@dataclass(eq=False)
class NoCheckpointSteps(SelectionError):
    """Losses are wanted at no step."""

    template = "there are no checkpoint steps; the first one is 0 and the last one the number of updates"


@dataclass(eq=False)
class FirstCheckpointNotZero(SelectionError):
    """The first losses are those before any update."""

    template = "the first checkpoint is step {actual}, not 0"
    actual: int


@dataclass(eq=False)
class CheckpointBeyondUpdates(SelectionError):
    """A checkpoint lies behind the last update."""

    template = "checkpoint {step} lies behind the last update, {last}"
    step: int
    last: int


@dataclass(eq=False)
class CheckpointStepsNotIncreasing(SelectionError):
    """Checkpoint steps repeat or go back."""

    template = "checkpoint {following} follows checkpoint {previous}; they must increase"
    previous: int
    following: int


@dataclass(eq=False)
class LastCheckpointNotFinal(SelectionError):
    """The last losses are those after the last update."""

    template = "the last checkpoint is step {actual}, not the last update, {expected}"
    expected: int
    actual: int


@dataclass(eq=False)
class WrongPartition(SelectionError):
    """An epoch of another partition than its role allows."""

    template = "the {role} epoch must be of the partition {expected}, not {actual}"
    role: str
    expected: str
    actual: str


@dataclass(eq=False)
class NoWindows(SelectionError):
    """An epoch without windows, or a plan without batches."""

    template = "the {role} epoch has no windows"
    role: str


@dataclass(eq=False)
class WindowLengthDiffers(SelectionError):
    """Windows of another length than those that are trained on."""

    template = "the {role} epoch has windows of {actual} tokens, the update epoch of {expected}"
    role: str
    expected: int
    actual: int


@dataclass(eq=False)
class WindowExceedsContext(SelectionError):
    """Windows that the model has no positions for."""

    template = "the {role} epoch has windows of {tokens} tokens, the model holds {context}"
    role: str
    tokens: int
    context: int


@dataclass(eq=False)
class WindowTokenOutOfRange(SelectionError):
    """An id beyond the vocabulary; `index` is its place in its document."""

    template = (
        "the {role} epoch, document {document!r}: token {token} at index {index} is not in a vocabulary of {size}"
    )
    role: str
    document: str
    index: int
    token: int
    size: int


@dataclass(eq=False)
class NonFiniteEvaluation(SelectionError):
    """A mean loss left the range of binary64."""

    template = "the mean loss over the partition {partition} is {value}"
    partition: str
    value: float
