"""Errors of the checkpoints room. A checkpoint that raises one is refused as a whole; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


@dataclass(eq=False)
class CheckpointError(CaiReferenceError):
    """A checkpoint cannot be written or read."""
