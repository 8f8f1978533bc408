"""The branch of what can go wrong in what imitates a library; leaves stand beside the code that raises them."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


@dataclass(eq=False)
class LegacyError(CaiReferenceError):
    """What the library would do cannot be done, or would crash there."""
