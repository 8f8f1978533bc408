"""Gradients on their way back: what the consumers of each layer's output hand to it, added up."""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.nets.graph.layers.layer import InputGradient, SomeChannels


class GradientTotals:
    """A total for each layer, to which consumers add in any order."""

    def __init__(self, layers: int) -> None:
        self._totals: list[Array | None] = [None] * layers
        # A total may be written to once it is a sum: before, a consumer may have handed the same array to others.
        self._own = [False] * layers

    def add(self, layer: int, part: InputGradient) -> None:
        """Add the gradient from one consumer."""
        total = self._totals[layer]
        if isinstance(part, SomeChannels):
            if total is None:
                total = np.zeros((*part.gradient.shape[:2], part.depth))
            elif not self._own[layer]:
                total = total.copy()
            total[..., part.channels] += part.gradient
            self._totals[layer], self._own[layer] = total, True
        elif total is None:
            self._totals[layer] = part
        elif self._own[layer]:
            total += part
        else:
            self._totals[layer], self._own[layer] = total + part, True

    def take(self, layer: int) -> Array | None:
        """Return the total of a layer and forget it; None where nothing was added."""
        total, self._totals[layer] = self._totals[layer], None
        return total
