"""What can go wrong before anything is shrunk, or when it is written.

::

    SelectionError
    └── NoModelGiven   a suite gives no model that could be made smaller

    InputError
    └── FolderTaken    the folder for the result holds something else
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError, SelectionError


@dataclass(eq=False)
class NoModelGiven(SelectionError):
    """A suite gives no model that could be made smaller."""

    template = "{suite} gives no model that an engine could load, so that there is nothing to shrink"
    hint = "cai-conform list"
    suite: str


@dataclass(eq=False)
class FolderTaken(InputError):
    """The folder for the result holds something else, which is not overwritten."""

    template = "{folder!r} holds something else than a shrunk case; name another folder with --output"
    folder: str
