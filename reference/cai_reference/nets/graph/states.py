"""What a session keeps of a layer besides keys and values: the state of a recurrence, and the token before."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import sigmoid
from cai_reference.nets.graph.layers.vectors import DiagonalSsm, TokenShift


class Memory(Protocol):
    """What is kept of one layer from step to step, so that a step that fails can be taken back."""

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Take in tokens [tokens, depth] and return the layer's output for them."""
        ...

    def mark(self) -> None:
        """Make this the point to which `undo` returns."""
        ...

    def undo(self) -> None:
        """Take back everything since the mark."""
        ...


class VectorMemory:
    """A memory of one vector, which is replaced and never written to.

    Attributes:
        vector: [depth].
    """

    def __init__(self, depth: int) -> None:
        self.vector: Array = np.zeros(depth)
        self._marked = self.vector

    @property
    def width(self) -> int:
        """How wide the vector is."""
        return self.vector.size

    def reset(self) -> None:
        """Return to zeros."""
        self.vector = np.zeros(self.width)

    def mark(self) -> None:
        """Make this the point to which `undo` returns."""
        self._marked = self.vector

    def undo(self) -> None:
        """Return to the marked vector."""
        self.vector = self._marked


class Recurrence(VectorMemory):
    """The state h of a diagonal recurrence."""

    def __init__(self, layer: DiagonalSsm) -> None:
        super().__init__(layer.learned.weights[0].size)
        self._layer = layer

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Go on with the recurrence, token by token."""
        a_raw, b, c, e = self._layer.learned.weights
        a = sigmoid(arithmetic, a_raw)
        y = np.empty(x.shape)
        for token, row in enumerate(x):
            self.vector = (a * self.vector) + (b * row)
            y[token] = (c * self.vector) + (e * row)
        return y


class PreviousToken(VectorMemory):
    """The newest input of a token shift."""

    def __init__(self, layer: TokenShift) -> None:
        super().__init__(layer.learned.weights[0].size)
        self._layer = layer

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Mix each token with the one before it."""
        (mix,) = self._layer.learned.weights
        before = np.concatenate((self.vector[None], x[:-1]))
        self.vector = x[-1].copy()
        return (mix * x) + ((1.0 - mix) * before)
