"""The checkpoint of the reference as an engine: one file, with a digest of each tensor, written in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cai_conformance.interchange.files import read_file, write_file
from cai_reference.checkpoints.saved import read_checkpoint, write_checkpoint
from cai_reference.training.resumable import TrainingState

FILE: Final = "training.safetensors"


def write_training(directory: Path, state: TrainingState) -> None:
    """Write a state.

    Raises:
        OutputNotWritten: the operating system refuses.
    """
    write_file(directory / FILE, write_checkpoint(state))


def read_training(directory: Path) -> TrainingState:
    """Read a state, or refuse all of it.

    Raises:
        InputUnreadable: there is no such file.
        CaiReferenceError: it is damaged, or something else; a leaf that says what.
    """
    return read_checkpoint(read_file(directory / FILE))
