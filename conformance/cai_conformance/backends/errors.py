"""Errors of the backend room."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import BackendError


@dataclass(eq=False)
class UnknownBackend(BackendError):
    """A backend specification names nothing."""

    template = "backend {spec!r} is unknown; known are {known}"
    hint = "cai-conform backends list"
    spec: str
    known: str


@dataclass(eq=False)
class BackendNotImportable(BackendError):
    """A backend given as `module:attribute` or by an entry point cannot be loaded."""

    template = "backend {spec!r} cannot be loaded: {problem}"
    hint = "cai-conform backends list"
    spec: str
    problem: str


@dataclass(eq=False)
class NotOffered(BackendError):
    """A backend does not answer this request; its checks are skipped with the reason."""

    template = "{backend} does not offer {what}: {reason}"
    backend: str
    what: str
    reason: str


@dataclass(eq=False)
class BackendCrashed(BackendError):
    """A backend raised, exited or printed something that is not an answer."""

    template = "{backend} crashed: {problem}"
    backend: str
    problem: str


def one_line(error: BaseException) -> str:
    """Return the class and text of a foreign error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


@dataclass(eq=False)
class TraceFileUnreadable(BackendError):
    """A trace file cannot be read."""

    template = "trace file {path!r} cannot be read: {problem}"
    path: str
    problem: str
