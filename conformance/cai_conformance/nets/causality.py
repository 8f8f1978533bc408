"""Whether a net looks ahead: whether what it says behind a token depends on later ones. Found by trying."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.nets.heads import Heads
from cai_reference.arithmetic import Arithmetic
from cai_reference.nets.graph.net import Net

ROUNDING: Final = 1e-9
"""Rows of one batch may differ by rounding alone; what depends on other tokens differs by more."""


def look_ahead(net: Net, arithmetic: Arithmetic) -> int | None:
    """Return the first row of the output that changes with later tokens, in some trials; None if none did.

    The tokens from some position on are replaced, for a position near the start, in the middle and at the end.

    Raises:
        NotALanguageModel: the net does not score the ids that it reads.
        NetError: the net does not run.
    """
    vocabulary, context = Heads.of(net).vocabulary, net.context
    ids = np.array([1 + position % max(1, vocabulary - 1) for position in range(context)]) % vocabulary
    for start in sorted({1, context // 2, context - 1} - {0}):
        other = ids.copy()
        other[start:] = (other[start:] + 1) % vocabulary
        first, second = net.output(arithmetic, np.stack([ids, other]))
        changed = np.max(np.abs(first[:start] - second[:start]), axis=1) > ROUNDING
        if np.any(changed):
            return int(np.argmax(changed))
    return None
