"""What is asked of an engine that writes its training to a directory, and goes on from there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class SavedTraining:
    """What an engine says of a checkpoint that it wrote.

    Attributes:
        checksums: whether it notices any byte of it that was changed.
    """

    checksums: bool = False


@runtime_checkable
class CheckpointingEngine(Protocol):
    """Feature `checkpoint`, of an engine that has `train`."""

    def save_training(self, directory: Path) -> SavedTraining:
        """Write all that later steps depend on, but for their batches, into an empty directory; nothing else changes.

        Weights, moments, the number of steps and the settings are written as plain files, which may be read from
        another place.

        Raises:
            Refused: no training has begun.
        """
        ...

    def resume_training(self, directory: Path) -> None:
        """Go on from what was written, whether a training had begun or not; the model of the same folder is loaded.

        Raises:
            Refused: it is not a whole checkpoint, or one of another model. Weights, moments, settings and slots are
                as they were.
        """
        ...
