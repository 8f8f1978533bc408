"""What can go wrong while goldens are exported.

::

    InputError
    └── ExportError
        ├── LayoutImpossible    engines cannot compute what the suite's model computes
        ├── AlreadyThere        a folder of this name exists
        └── ForeignFolder       a folder that would be replaced holds other files than an export
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError


@dataclass(eq=False)
class ExportError(InputError):
    """A golden cannot be exported."""


@dataclass(eq=False)
class LayoutImpossible(ExportError):
    """A suite has no model in this layout."""

    template = "{suite} has no layout {layout!r}: {reason}"
    hint = "cai-conform vectors export DIR {suite} --layout native"
    suite: str
    layout: str
    reason: str


@dataclass(eq=False)
class AlreadyThere(ExportError):
    """Something would be replaced."""

    template = "{path!r} is already there"
    hint = "cai-conform vectors export --force"
    path: str


@dataclass(eq=False)
class ForeignFolder(ExportError):
    """What would be replaced was not exported, or was added to since."""

    template = "{path!r} holds {name!r}, which no export writes, and is not replaced"
    path: str
    name: str
