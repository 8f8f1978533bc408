"""What can go wrong with an engine.

::

    BackendError
    └── EngineError
        ├── Refused           the engine will not do this one thing, and is as it was before
        ├── EngineBroken      it crashed, hung or broke the protocol; nothing more can be asked of it
        └── AnswerOutOfShape  it answered something else than what was asked
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import BackendError


@dataclass(eq=False)
class EngineError(BackendError):
    """An engine did not do what was asked."""


@dataclass(eq=False)
class Refused(EngineError):
    """An engine will not do one thing, and says why; it is as it was before the call."""

    template = "{engine} refuses {what}: {reason}"
    engine: str
    what: str
    reason: str


@dataclass(eq=False)
class EngineBroken(EngineError):
    """An engine crashed, hung, or broke the protocol."""

    template = "{engine} {problem}"
    engine: str
    problem: str


@dataclass(eq=False)
class AnswerOutOfShape(EngineError):
    """An answer has another shape than what was asked for, or holds what is no number where one is needed."""

    template = "{engine} answered {found} where {wanted} was asked for"
    engine: str
    found: str
    wanted: str
