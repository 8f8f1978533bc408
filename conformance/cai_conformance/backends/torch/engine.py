"""PyTorch as an engine: its own modules and kernels, ragged batches, preallocated caches, its own optimiser.

Nothing of the reference computes here. All pieces of a call go through the model as one batch, padded to the longest
one, as engines do, so that the last bits of a piece depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from cai_conformance.backends.torch.computing import FORMATS, PRECISIONS, Observer, as_array, computing, stages_of_row
from cai_conformance.backends.torch.generation import greedy
from cai_conformance.backends.torch.slots import Slots
from cai_conformance.backends.torch.training import Trainer, gradients_of, read_training, write_training
from cai_conformance.backends.torch.weights import OpenedWeights, open_folder
from cai_conformance.engine import (
    Description,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    Nondeterminism,
    OptimizerState,
    Piece,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)

SLOTS: Final = 16
CONTEXT: Final = 512
"""The most tokens a slot holds, whatever a model can be told."""

ARMS: Final = frozenset({"full", "cached"})
FEATURES: Final = frozenset(Feature)


@dataclass
class _HeldModel:
    """A loaded model with its sequences, the weights that it was loaded with, and what trains it."""

    opened: OpenedWeights
    slots: Slots
    given: Mapping[str, torch.Tensor]
    trainer: Trainer | None = None


class TorchEngine:
    """An engine that computes with PyTorch.

    Args:
        precision: the format of models that are loaded without saying which.
        device: a device of PyTorch, such as `cuda`.
    """

    def __init__(self, precision: str = "float64", device: str = "cpu") -> None:
        self._device = torch.device(device)
        self._own = self._format = precision
        self._model: _HeldModel | None = None
        self._fail_after: int | None = None
        if precision not in FORMATS:
            raise self._refused(f"the format {precision}", f"it has {', '.join(FORMATS)}")
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise self._refused(f"the device {device}", "PyTorch finds none")

    @property
    def description(self) -> Description:
        """Who it is; after a model was loaded, in the format of that model."""
        precision = PRECISIONS[self._format]
        return Description(
            self._name,
            torch.__version__,
            precision.coarsest,
            precision,
            tuple(FORMATS),
            Nondeterminism.BATCH if self._device.type == "cpu" else Nondeterminism.RUN,
            FEATURES,
            ARMS,
            SLOTS,
        )

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder; all slots are empty then.

        Raises:
            Refused: the format or the model is none that there is here; what was loaded before stays.
        """
        wanted = self._own if precision is None else precision
        if wanted not in FORMATS:
            raise self._refused(f"the format {wanted}", f"it has {', '.join(FORMATS)}")
        with self._refusing("the folder"):
            opened = open_folder(folder, FORMATS[wanted], self._device)
        stack = opened.stack
        slots = Slots(stack, SLOTS, min(CONTEXT, opened.context))
        given = {name: value.detach().clone() for name, value in stack.named_parameters()}
        self._model, self._format, self._fail_after = _HeldModel(opened, slots, given), wanted, None
        weights = sum(value.numel() * value.element_size() for value in given.values())
        claimed = {"cache_bytes": slots.bytes_a_slot, "weight_bytes": weights}
        return Loaded(opened.conventions, slots.context, claimed)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces of different slots as one batch, and remember their tokens.

        Raises:
            Refused: a piece does not fit, or `fail_after` says so; nothing was remembered.
        """
        slots = self._loaded("a call").slots
        limit, self._fail_after = self._fail_after, None
        with self._refusing("a call"):
            slots.check(pieces)
        if not pieces:
            return ()

        def behind(blocks: int) -> None:
            if blocks == limit:
                raise self._refused("a call", f"it was told to fail behind {blocks} blocks")

        observer = Observer({} if observe else None)
        with computing():
            logits = slots.run(pieces, observer, behind)
            return tuple(
                Evaluated(
                    np.stack([as_array(head[row, list(piece.wanted)]) for head in logits]),
                    stages_of_row(observer.kept or {}, row, len(piece.tokens)),
                )
                for row, piece in enumerate(pieces)
            )

    def clear(self, slot: int) -> None:
        """Empty a slot.

        Raises:
            Refused: there is no such slot.
        """
        slots = self._loaded("to empty a slot").slots
        with self._refusing("to empty a slot"):
            slots.check_slot(slot)
        slots.empty(slot)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget the positions of a slot from `first` on.

        Raises:
            Refused: the range is not at the end of the slot, or what is needed before it is gone.
        """
        with self._refusing("a cut"):
            self._loaded("a cut").slots.drop(slot, first, last)

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds.

        Raises:
            Refused: there is no such slot.
        """
        with self._refusing("a copy"):
            self._loaded("a copy").slots.copy(source, target)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate greedily: `full` encodes the whole sequence for each token, `cached` what is new.

        Raises:
            Refused: the arm is another one, the prompt does not fit, or no such number of likeliest ids is there.
        """
        slots = self._loaded("a generation").slots
        if order.arm not in ARMS:
            raise self._refused("a generation", f"it has no arm {order.arm}")
        slots.empty(slots.spare)

        def logits_after(sequence: Sequence[int]) -> torch.Tensor:
            if order.arm == "full":
                slots.empty(slots.spare)
            known = slots.length(slots.spare)
            piece = Piece(slots.spare, known, tuple(sequence[known:]), ())
            return slots.run([piece], Observer())[0][0, -1]

        with self._refusing("a generation"), computing():
            slots.check_ids(order.prompt)
            return greedy(order, slots.context, logits_after)

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients on the present weights; nothing changes.

        Raises:
            Refused: the batch does not fit the model.
        """
        held = self._loaded("gradients")
        with self._refusing("gradients"), computing(recording=True):
            return gradients_of(held.opened, batch)

    def start_training(self, settings: TrainingSettings) -> None:
        """Go back to the weights that were loaded, with fresh moments; all slots are empty then.

        Raises:
            Refused: the optimiser does not take the settings.
        """
        held = self._loaded("training")
        with self._refusing("training"), computing():
            trainer = Trainer(held.opened, settings)
            for name, value in held.opened.stack.named_parameters():
                value.copy_(held.given[name])
        held.trainer = trainer
        held.slots.empty_all()

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step, and return the loss before it; all slots are empty then, as they held another model's rows.

        Raises:
            Refused: training has not begun, or the batch does not fit the model.
        """
        held, trainer = self._loaded("a step"), self._training("a step")
        with self._refusing("a step"), computing(recording=True):
            loss = trainer.step(batch)
        held.slots.empty_all()
        return loss

    def training_state(self) -> OptimizerState:
        """Return what the last step left.

        Raises:
            Refused: training has not begun.
        """
        return self._training("the state of training").state()

    def save_training(self, directory: Path) -> SavedTraining:
        """Write weights, moments, steps and settings, with a digest.

        Raises:
            Refused: training has not begun, or the files cannot be written.
        """
        held, trainer = self._loaded("to save"), self._training("to save")
        with self._refusing("to save"):
            write_training(directory, held.opened, trainer)
        return SavedTraining(checksums=True)

    def resume_training(self, directory: Path) -> None:
        """Go on from what was written; all slots are empty then.

        Raises:
            Refused: it is not whole, or of another model or format; everything is as it was.
        """
        held = self._loaded("to resume")
        with self._refusing("to resume"), computing():
            read = read_training(directory, held.opened)
            for name, value in held.opened.stack.named_parameters():
                value.copy_(read.weights[name])
        held.trainer = read.trainer
        held.slots.empty_all()

    def poison(self, value: float) -> None:
        """Fill every cached row that no position owns."""
        self._loaded("to poison").slots.poison(value)

    def fail_after(self, layers: int) -> None:
        """Raise `Refused` in the next call of `evaluate`, behind so many blocks.

        Raises:
            Refused: there are not so many blocks.
        """
        blocks = len(self._loaded("to fail").opened.stack.blocks)
        if not 0 <= layers <= blocks:
            raise self._refused("to fail", f"the model has {blocks} blocks, not {layers}")
        self._fail_after = layers

    def close(self) -> None:
        """Let go of model and caches."""
        self._model = None

    @property
    def _name(self) -> str:
        if self._device.type == "cuda" and torch.cuda.is_available():
            return f"PyTorch on {torch.cuda.get_device_name(self._device)}"
        return f"PyTorch on {self._device}"

    def _loaded(self, what: str) -> _HeldModel:
        if self._model is None:
            raise self._refused(what, "no model is loaded")
        return self._model

    def _training(self, what: str) -> Trainer:
        trainer = self._loaded(what).trainer
        if trainer is None:
            raise self._refused(what, "training has not begun")
        return trainer

    def _refused(self, what: str, reason: str) -> Refused:
        return Refused(self._name, what, reason)

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise self._refused(what, str(error)) from error
