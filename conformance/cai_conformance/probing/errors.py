"""What can go wrong before a probe begins.

::

    InputError
    ├── FolderUnreadable   a model folder, or its settings, cannot be read
    ├── CallsUnreadable    a prompt, or the calls that feed it, cannot be read
    └── BatchUnreadable    rows to train on cannot be read

    SelectionError
    └── NotDriven          the backend is none that is driven call by call
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError, SelectionError


@dataclass(eq=False)
class FolderUnreadable(InputError):
    """A model folder, or its settings, cannot be read."""

    template = "the model folder {folder!r} cannot be read: {problem}"
    folder: str
    problem: str


@dataclass(eq=False)
class CallsUnreadable(InputError):
    """A prompt, or the calls that feed it, cannot be read."""

    template = "the calls {text!r} cannot be made: {problem}"
    text: str
    problem: str


@dataclass(eq=False)
class BatchUnreadable(InputError):
    """Rows to train on cannot be read."""

    template = "the batch {text!r} cannot be trained on: {problem}"
    text: str
    problem: str


@dataclass(eq=False)
class NotDriven(SelectionError):
    """A backend prints traces, and cannot be driven call by call."""

    template = "{backend} cannot be driven call by call, so that there is nothing to probe"
    hint = "cai-conform backends list"
    backend: str
