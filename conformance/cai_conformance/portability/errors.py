"""What can go wrong with recording under settings, and with the table of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_conformance.errors import BackendError, GoldenError, InputError


@dataclass(eq=False)
class InterpreterUnusable(InputError):
    """A Python interpreter cannot record."""

    template: ClassVar[str] = "interpreter {path!r} cannot record: {problem}"
    hint: ClassVar[str] = "Install this project and another NumPy into a virtual environment, and name its python."
    path: str
    problem: str


@dataclass(eq=False)
class RecordingFailed(BackendError):
    """A recording under a setting ended without a trace."""

    template: ClassVar[str] = "a recording under '{setting}' failed: {problem}"
    setting: str
    problem: str


@dataclass(eq=False)
class TableDamaged(GoldenError):
    """The portability table is not what this program writes."""

    template: ClassVar[str] = "The portability table {path} is damaged: {problem}."
    hint: ClassVar[str] = "Restore {path} from version control, or record it anew: cai-conform golden portability."
    path: str
    problem: str


@dataclass(eq=False)
class OtherCircumstances(GoldenError):
    """Suites cannot be added to a table that was recorded under other settings, libraries or versions."""

    template: ClassVar[str] = "The suites cannot join {path}, which was recorded under other settings or libraries."
    hint: ClassVar[str] = "Record all suites anew into another file, with the same interpreters."
    path: str
