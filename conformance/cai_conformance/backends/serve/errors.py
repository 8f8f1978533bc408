"""What can go wrong between a program and this one.

::

    BackendError
    └── ProtocolViolation     a line, message or answer is not what the protocol allows; never leaves this room

A program's own trouble is told by `EngineError` and `backend-crashed`, as that of any other engine or backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.errors import BackendError

SERVING_TEMPLATES: Final[Mapping[str, str]] = {
    # A line, message or answer is not what the protocol allows.
    "protocol-violation": "{what} {problem}"
}


class ProtocolViolation(BackendError):
    """A line, message or answer is not what the protocol allows."""

    templates = SERVING_TEMPLATES

    def __init__(self, what: str, problem: str) -> None:
        super().__init__("protocol-violation", what=what, problem=problem)
        self.what = what
        self.problem = problem
