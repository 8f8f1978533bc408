"""What can go wrong while published figures are counted."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import ConformanceError


@dataclass(eq=False)
class CacheMiscounted(ConformanceError):
    """A cache's own account is not what its arrays hold, so neither can be compared with a published figure."""

    template = "the cache of layer {layer} accounts for {accounted} floats after {tokens} tokens, but holds {held}"
    exit_code = 1
    layer: int
    tokens: int
    accounted: int
    held: int
