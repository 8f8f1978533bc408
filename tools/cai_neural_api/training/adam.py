"""The library's Adam: with the learning rate inside the moments, a norm limit on the step, and a lost first step.

For every weight and bias of a layer, with G the gradient summed over the batch and s the optimiser's step, from 1:

1. d = −rate · G
2. m ← β₁ m + (1 − β₁) d;   v ← β₂ v + (1 − β₂) d²
3. Δ = rate · (m / (1 − β₁^s)) / (√(v / (1 − β₂^s)) + ε)
4. if ‖Δ‖₂ over the whole layer, biases included, exceeds the limit, Δ is scaled down to it
5. w ← w + Δ
6. w ← w · (1 − decay · rate), **biases and the embedding table included**; layers with a vector a channel are exempt

**First-step defect**: the optimiser's state is made in its first call, which zeroes the weights' d but not the biases'.
So the first step moves biases only, and the weights' moments start with the second step, whose bias correction counts
two.

**A new rate forgets**: when the learning rate changes, both moments and the count of steps start again from 0. That
happens before a batch, when there is no gradient to lose, so that no step is lost a second time. This one rule was read
in the library's source; all others were measured over three steps at two rates.

The library computes in binary32 and holds the rate so, too. Whether a rate is rounded first makes less difference than
its own rounding does: measured steps are met equally well with and without, so a rate is used as it is given.

Source: CAI NEURAL API, TNeuralOptimizerAdam, CalcAdamDelta, NormalizeNormPerLayer, ComputeL2Decay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import Learned
from cai_reference.arithmetic import Arithmetic, Array

EXEMPT: Final = frozenset({"TNNetDyT", "TNNetDiagonalSSM", "TNNetTokenShift"})
"""Classes whose weights do not decay."""


@dataclass(frozen=True)
class AdamSettings:
    """The numbers of the optimiser; the defaults are the library's.

    Attributes:
        rate: the learning rate.
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
    """The optimiser of one net, whose parameters it changes in place.

    Attributes:
        settings: as given.
        rate: the learning rate of the next step.
    """

    def __init__(self, net: Net, settings: AdamSettings, arithmetic: Arithmetic) -> None:
        self.settings = settings
        self.rate = settings.rate
        self._net = net
        self._arithmetic = arithmetic
        self._moments = [
            None if layer.learned is None else (layer.learned.like(), layer.learned.like()) for layer in net.layers
        ]
        sizes = [[array.size for array in layer.learned.arrays] for layer in net.layers if layer.learned is not None]
        self._moves = np.empty(max((sum(layer) for layer in sizes), default=0))
        self._squares = np.empty(max((size for layer in sizes for size in layer), default=0))
        self._started = False
        self._power1 = self._power2 = 1.0

    def change_rate(self, rate: float) -> None:
        """Set the learning rate; one that differs from the present rate makes the optimiser forget its moments."""
        if rate == self.rate:
            return
        self.rate = rate
        self._power1 = self._power2 = 1.0
        for moments in self._moments:
            for moment in moments or ():
                for array in moment.arrays:
                    array.fill(0.0)

    def step(self, gradients: Sequence[Learned | None]) -> None:
        """Take a step along the gradients of all layers, summed over the batch."""
        self._power1 *= self.settings.beta1
        self._power2 *= self.settings.beta2
        with np.errstate(over="ignore", invalid="ignore"):
            for spec, layer, gradient, moments in zip(
                self._net.specs, self._net.layers, gradients, self._moments, strict=True
            ):
                if layer.learned is None or gradient is None or moments is None:
                    continue
                moves = self._layer_moves(gradient, *moments)
                factor = self._factor(moves)
                kept = 1.0 if spec.kind in EXEMPT else 1.0 - self.settings.decay * self.rate
                for array, move in zip(layer.learned.arrays, moves, strict=True):
                    if factor != 1.0:
                        move *= factor
                    array += move
                    if kept != 1.0:
                        array *= kept
        self._started = True

    def _layer_moves(self, gradient: Learned, first: Learned, second: Learned) -> list[Array]:
        """Return the Δ of each array of a layer, in memory that the next layer uses again."""
        moves, start = [], 0
        for place, array in enumerate(gradient.arrays):
            move = self._moves[start : start + array.size].reshape(array.shape)
            start += array.size
            if self._started or place >= len(gradient.weights):
                self._move(array, first.arrays[place], second.arrays[place], move)
            else:
                move.fill(0.0)
            moves.append(move)
        return moves

    def _move(self, gradient: Array, first: Array, second: Array, move: Array) -> None:
        """Update the moments of one array and write its Δ."""
        beta1, beta2 = self.settings.beta1, self.settings.beta2
        term = self._scratch(gradient)
        np.multiply(gradient, -self.rate, out=move)
        first *= beta1
        first += np.multiply(move, 1.0 - beta1, out=term)
        second *= beta2
        np.multiply(move, move, out=term)
        second += np.multiply(term, 1.0 - beta2, out=term)
        root = np.sqrt(np.multiply(second, 1.0 / (1.0 - self._power2), out=term), out=term)
        root += self.settings.epsilon
        np.multiply(first, self.rate / (1.0 - self._power1), out=move)
        move /= root

    def _factor(self, moves: Sequence[Array]) -> float:
        """Return what scales a layer's step down to the limit, or 1."""
        total = 0.0
        for move in moves:
            total += float(self._arithmetic.sum(np.multiply(move, move, out=self._scratch(move))))
        norm = math.sqrt(total)
        return self.settings.limit / norm if norm > self.settings.limit else 1.0

    def _scratch(self, like: Array) -> Array:
        """Return room for an array of that shape, which the next call uses again."""
        return self._squares[: like.size].reshape(like.shape)
