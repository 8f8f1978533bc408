"""What can go wrong with the bake-off before it computes anything.

::

    InputError
    └── BakeOffError
        ├── UnknownBakePhase     a phase that is none of the nine
        ├── DataIncomplete       a vocabulary without rows, or rows without a vocabulary
        ├── DataDamaged          a file that is not what was written
        ├── NoUsableRow          rows of which none can be trained on
        ├── LimitsConflict       a time box and a number of steps
        ├── InvalidBudget        a time box that is no time
        ├── InvalidBakeSetting   a number below 1
        ├── CheckpointMissing    phase 5 without the net of phase 1
        └── CheckpointDiffers    a checkpoint that is another net than that of phase 1
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError


@dataclass(eq=False)
class BakeOffError(InputError):
    """The bake-off cannot be run as it was asked for."""


@dataclass(eq=False)
class UnknownBakePhase(BakeOffError):
    """There are nine phases."""

    template = "phase {text!r} is unknown; a phase is a number from 1 to 9, or all"
    text: str


@dataclass(eq=False)
class DataIncomplete(BakeOffError):
    """Rows mean nothing without the vocabulary that they were made with."""

    template = "{given} needs {missing} beside it"
    hint = "cai-conform bakeoff --phase all --vocabulary VOCABULARY --rows ROWS.csv"
    given: str
    missing: str


@dataclass(eq=False)
class DataDamaged(BakeOffError):
    """A vocabulary or a file of rows cannot be read; the problem names its line."""

    template = "{path!r}: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class NoUsableRow(BakeOffError):
    """Every row is empty or has an id that the nets do not know."""

    template = "{path!r} has no row to train on: {rows} rows, of which none has ids, all of them up to {largest}"
    path: str
    rows: int
    largest: int


@dataclass(eq=False)
class LimitsConflict(BakeOffError):
    """Training ends after a time or after a number of steps, not after both."""

    template = "--budget and --steps exclude each other: a run is boxed in time, or replayable"
    hint = "leave one of them out"


@dataclass(eq=False)
class InvalidBudget(BakeOffError):
    """A time box must be a finite number of seconds."""

    template = "a training time of {seconds} s is none"
    seconds: float


@dataclass(eq=False)
class InvalidBakeSetting(BakeOffError):
    """A number below 1 of something that is counted."""

    template = "{name} must be 1 or more, not {value}"
    name: str
    value: int


@dataclass(eq=False)
class CheckpointMissing(BakeOffError):
    """Phase 5 decodes the net that phase 1 trained."""

    template = "phase 5 needs the net of phase 1, but {path!r} does not exist"
    hint = "cai-conform bakeoff --phase 1 --output {folder}"
    path: str
    folder: str


@dataclass(eq=False)
class CheckpointDiffers(BakeOffError):
    """A net of other layers cannot stand for that of phase 1."""

    template = "{path!r} is not the net of phase 1: layer {layer} differs"
    hint = "cai-conform bakeoff --phase 1 --output {folder}"
    path: str
    folder: str
    layer: int
