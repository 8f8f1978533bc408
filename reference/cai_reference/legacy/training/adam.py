"""The library's Adam: with the learning rate inside the moments, a norm limit on the step, and a lost first step.

For every weight and bias of a layer, with G the gradient summed over the batch and s the layer's step, from 1:

1. d = −rate · G
2. m ← β₁ m + (1 − β₁) d;   v ← β₂ v + (1 − β₂) d²
3. Δ = rate · (m / (1 − β₁^s)) / (√(v / (1 − β₂^s)) + ε)
4. if ‖Δ‖₂ over the whole layer, biases included, exceeds the limit, Δ is scaled down to it
5. w ← w + Δ
6. w ← w · (1 − decay · rate), **biases and the embedding table included**; layers with a vector a channel are exempt

**First-step defect**: the optimiser's state is made in its first call, which zeroes the weights' d but not the biases'.
So the first step moves biases only, and the weights' moments start with the second step, whose bias correction counts
two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.layers.layer import Learned
from cai_reference.nets.graph.net import Net

EXEMPT: Final = frozenset({"TNNetDyT", "TNNetDiagonalSSM", "TNNetTokenShift"})
"""Classes whose weights do not decay."""


@dataclass(frozen=True)
class AdamSettings:
    """The numbers of the optimiser; the defaults are the library's.

    Attributes:
        rate: the learning rate; the library holds it in binary32.
        beta1, beta2: of the two moments.
        epsilon: added to the root, which is as large as rate · |G|.
        limit: the largest norm of a layer's step.
        decay: what the library calls L2.
    """

    rate: float
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-7
    limit: float = 1.0
    decay: float = 0.1


class LegacyAdam:
    """The optimiser of one net, whose parameters it changes in place."""

    def __init__(self, net: Net, settings: AdamSettings, arithmetic: Arithmetic) -> None:
        self.settings = settings
        self._net = net
        self._arithmetic = arithmetic
        self._moments = [
            None if layer.learned is None else (layer.learned.like(), layer.learned.like()) for layer in net.layers
        ]
        self._steps = 0
        self._power1 = self._power2 = 1.0

    def step(self, gradients: Sequence[Learned | None]) -> None:
        """Take a step along the gradients of all layers, summed over the batch."""
        self._steps += 1
        self._power1 *= self.settings.beta1
        self._power2 *= self.settings.beta2
        for spec, layer, gradient, moments in zip(
            self._net.specs, self._net.layers, gradients, self._moments, strict=True
        ):
            if layer.learned is None or gradient is None or moments is None:
                continue
            moves = [
                self._move(array, first, second, lost=self._steps == 1 and place < len(gradient.weights))
                for place, (array, first, second) in enumerate(
                    zip(gradient.arrays, moments[0].arrays, moments[1].arrays, strict=True)
                )
            ]
            factor = self._factor(moves)
            kept = 1.0 if spec.kind in EXEMPT else 1.0 - self.settings.decay * self.settings.rate
            for array, move in zip(layer.learned.arrays, moves, strict=True):
                array += move * factor
                array *= kept

    def _move(self, gradient: Array, first: Array, second: Array, *, lost: bool) -> Array:
        """Update the moments of one array and return its Δ; a lost gradient moves nothing."""
        if lost:
            return np.zeros(gradient.shape)
        rate, beta1, beta2 = self.settings.rate, self.settings.beta1, self.settings.beta2
        delta = gradient * -rate
        first *= beta1
        first += delta * (1.0 - beta1)
        second *= beta2
        second += (delta * delta) * (1.0 - beta2)
        root = np.sqrt(second * (1.0 / (1.0 - self._power2))) + self.settings.epsilon
        return (first * (rate / (1.0 - self._power1))) / root

    def _factor(self, moves: Sequence[Array]) -> float:
        """Return what scales a layer's step down to the limit, or 1."""
        total = 0.0
        for move in moves:
            total += float(self._arithmetic.sum(move * move))
        norm = math.sqrt(total)
        return self.settings.limit / norm if norm > self.settings.limit else 1.0
