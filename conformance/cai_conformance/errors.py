"""Every error that the conformance package raises on its own account.

::

    ConformanceError
    ├── TraceError               the text of a trace breaks the grammar or its envelope
    ├── GoldenError              the goldens cannot be read, or must not be written
    ├── BackendError             a backend is unknown, failed to import, crashed or hung
    ├── SelectionError           a suite, check or filter names nothing
    ├── InputError               a corpus, manifest or expectation file cannot be used
    └── FixtureError             an experiment stopped: an inner error with the stage that raised it

An error carries its values as fields, one sentence as text, and, where there is one, the next command to try.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from cai_reference.errors import shown


@dataclass(eq=False)
class ConformanceError(Exception):
    """Base of the tree: a template filled from the dataclass fields, and a hint for the command line.

    `exit_code` is what the command line returns: 2 for usage and harness trouble, 1 where a value is wrong.
    """

    template: ClassVar[str] = ""
    hint: ClassVar[str] = ""
    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        return self.template.format(**self._shown())

    @property
    def next_command(self) -> str:
        """The command to try next, or an empty string."""
        return self.hint.format(**self._shown())

    def _values(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _shown(self) -> dict[str, object]:
        return {name: shown(value) for name, value in self._values().items()}

    def __reduce__(self) -> tuple[type[ConformanceError], tuple[object, ...]]:
        return type(self), tuple(self._values().values())


@dataclass(eq=False)
class TraceError(ConformanceError):
    """The text of a trace breaks the grammar or its envelope."""


@dataclass(eq=False)
class GoldenError(ConformanceError):
    """The goldens cannot be read, or must not be written."""


@dataclass(eq=False)
class BackendError(ConformanceError):
    """A backend is unknown, failed to import, crashed or hung."""


@dataclass(eq=False)
class SelectionError(ConformanceError):
    """A suite, check or filter names nothing."""


@dataclass(eq=False)
class InputError(ConformanceError):
    """A corpus, manifest or expectation file cannot be used."""


@dataclass(eq=False)
class FixtureError(ConformanceError):
    """An experiment stopped: the stage that raised, then the inner text."""

    template: ClassVar[str] = "{stage}: {inner}"
    stage: str
    inner: str


@dataclass(eq=False)
class InputUnreadable(InputError):
    """A file cannot be read."""

    template = "{path!r} cannot be read: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class InputTooLarge(InputError):
    """A file is beyond the size that anything here can use."""

    template = "{path!r} holds {size} bytes; the limit is {limit}"
    path: str
    size: int
    limit: int
