"""What is asked of an engine that trains: single steps, each of whose parts can be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cai_reference.arithmetic import Array
from cai_reference.text.story_batches import StoryBatch


@dataclass(frozen=True)
class TrainingSettings:
    """AdamW with decoupled decay and clipping by one norm.

    Attributes:
        learning_rate, beta1, beta2, epsilon, weight_decay: of AdamW; epsilon stands outside the root.
        clip: the largest norm of all gradients together; None for no limit.
        decayed: the tensors that decay, by the names of the model folder's file.
    """

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip: float | None
    decayed: tuple[str, ...]


@dataclass(frozen=True)
class TrainingBatch:
    """Sequences to train on.

    Attributes:
        inputs: ids [rows][width], padded with 0 on the right.
        targets: ids [heads][rows][width]; −1 where nothing is to be predicted.
    """

    inputs: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, batch: StoryBatch, heads: int = 1) -> TrainingBatch:
        """Return a batch of stories as rows."""
        width, ids = batch.width, batch.flat_ids
        targets: list[tuple[tuple[int, ...], ...]] = []
        for head in range(heads):
            flat = [-1] * len(ids)
            for place, target in zip(*batch.targets(head), strict=True):
                flat[place] = target
            targets.append(_rows(flat, width))
        return cls(_rows(ids, width), tuple(targets))


@dataclass(frozen=True)
class LossAndGradients:
    """The loss in nats, and the gradient of each tensor by its name in the model folder's file, before clipping."""

    loss: float
    gradients: Mapping[str, Array]


@dataclass(frozen=True)
class OptimizerState:
    """Weights and moments after a step, by the names of the model folder's file, in the shapes of that file."""

    weights: Mapping[str, Array]
    first_moments: Mapping[str, Array]
    second_moments: Mapping[str, Array]


@runtime_checkable
class TrainingEngine(Protocol):
    """Feature `train`. The loss is the mean over real targets; of several heads, the mean of the heads' means."""

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients on the present weights; nothing changes."""
        ...

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments on the weights that were loaded last."""
        ...

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step, and return the loss before it."""
        ...

    def training_state(self) -> OptimizerState:
        """Return what the last step left."""
        ...


def _rows(flat: list[int], width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flat[first : first + width]) for first in range(0, len(flat), width))
