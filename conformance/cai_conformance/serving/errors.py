"""What can go wrong between a program and this one.

::

    BackendError
    ├── ProtocolViolation     a line, message or answer is not what the protocol allows; never leaves this room
    ├── EngineNotImportable   `module:attribute` names no engine
    └── ValidatorMissing      `--validate` was asked for, and its library is not installed

A program's own trouble is told by `EngineError` and `BackendCrashed`, as that of any other engine or backend.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import BackendError


@dataclass(eq=False)
class ProtocolViolation(BackendError):
    """A line, message or answer is not what the protocol allows."""

    template = "{what} {problem}"
    what: str
    problem: str


@dataclass(eq=False)
class EngineNotImportable(BackendError):
    """A specification names no engine that can be served."""

    template = "engine {spec!r} cannot be loaded: {problem}"
    spec: str
    problem: str


@dataclass(eq=False)
class ValidatorMissing(BackendError):
    """Messages cannot be held against their schemas, because the library is not installed."""

    template = "messages are validated by the library {library}, which is not installed"
    hint = "pip install 'cai-conform[validate]'"
    library: str
