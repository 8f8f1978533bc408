"""What a judge of one asked sequence, or of asked batches, returns; and the model folder that it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from safetensors import SafetensorError

from cai_conformance.backends.engine.files import FolderModel, read_folder
from cai_conformance.backends.errors import one_line
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.engine import MANTISSA_BITS, Refused
from cai_conformance.errors import BackendError, InputError
from cai_conformance.verdicts import Difference, Outcome
from cai_reference.errors import CaiReferenceError

MARGIN: Final = 16.0
"""How often the tolerance is exceeded by what is clearly no rounding."""
FAULT_BITS: Final = 36
"""Nor is what moves one of so many leading bits, even where all bits are defined; in formats with fewer, the margin."""


class ProbeWay(StrEnum):
    """How something fails. What fails in another way is not the same failure."""

    VALUE = "value"
    """Numbers are others than they should be."""
    REFUSAL = "refusal"
    """The engine refuses what it takes elsewhere."""
    CRASH = "crash"
    """The engine gave no answer."""


@dataclass(frozen=True)
class Judged:
    """What was found.

    Attributes:
        outcome, message, differences: as those of a verdict.
        way: how it fails, if it does.
    """

    outcome: Outcome
    message: str
    differences: tuple[Difference, ...] = ()
    way: ProbeWay = ProbeWay.VALUE

    @classmethod
    def skipped(cls, reason: str) -> Judged:
        """Say why there is nothing to judge."""
        return cls(Outcome.SKIPPED, reason)

    @property
    def fails(self) -> bool:
        """Whether something is wrong, be it a crash."""
        return self.outcome in (Outcome.FAIL, Outcome.ERRORED)


@dataclass(frozen=True)
class CheckedFolder:
    """A model folder in an engine, beside the reference's own reading of it.

    Attributes:
        probe: the folder in the engine.
        path: of the folder.
        clearly: whether a difference has to be far beyond the tolerance; never for a verdict.
    """

    probe: Probe
    path: Path
    clearly: bool = False

    def allowed(self, units: float) -> float:
        """Return how many units in the last place may differ, where as many are tolerated."""
        if not self.clearly:
            return units
        bits = MANTISSA_BITS[self.probe.description.precision.coarsest]
        return MARGIN * max(units, 1.0, 2.0 ** (bits - FAULT_BITS))

    @property
    def reference(self) -> FolderModel:
        """The reference's model, which nobody trains.

        Raises:
            InputError (folder-unreadable): it is no model of the reference.
        """
        return self.probe.memory.remembered("the reference's model", self.read)

    def read(self) -> FolderModel:
        """Read a model of the reference.

        Raises:
            InputError (folder-unreadable): it is no model of the reference.
        """
        try:
            return read_folder(self.path)
        except (OSError, ValueError, TypeError, KeyError, SafetensorError, CaiReferenceError) as error:
            raise InputError(
                "folder-unreadable",
                folder=str(self.path),
                problem=f"it is no model of the reference: {one_line(error)}",
            ) from error


def judged_safely(judge: Callable[[], Judged]) -> Judged:
    """Return what a judge says; a refusal has nothing to judge, and a crash says nothing about numbers.

    Raises:
        InputError (folder-unreadable): the reference has to read the folder, and cannot.
    """
    try:
        return judge()
    except Refused as error:
        return Judged.skipped(str(error))
    except BackendError as error:
        return Judged(Outcome.ERRORED, str(error), way=ProbeWay.CRASH)
    except CaiReferenceError as error:
        return Judged.skipped(f"the reference refuses it: {error}")
