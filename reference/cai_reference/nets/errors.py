"""The branch of what can go wrong with a net of the CAI NEURAL API; leaves stand beside the code that raises them."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


@dataclass(eq=False)
class NetError(CaiReferenceError):
    """A net cannot be read, built, run or converted."""
