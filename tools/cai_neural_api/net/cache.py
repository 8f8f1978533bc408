"""The key and value cache of one attention layer: full, with sinks and recent tokens only, or in 8 bits.

What a session keeps of a layer besides keys and values: the state of a recurrence, and the token before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from cai_neural_api.errors import NetSessionError
from cai_neural_api.net.layers.attention import DotProductAttention
from cai_neural_api.net.layers.learned import DiagonalSsmLayer, TokenShiftLayer
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.operations import sigmoid


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

    def __init__(self, layer: DiagonalSsmLayer) -> None:
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

    def __init__(self, layer: TokenShiftLayer) -> None:
        super().__init__(layer.learned.weights[0].size)
        self._layer = layer

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Mix each token with the one before it."""
        (mix,) = self._layer.learned.weights
        before = np.concatenate((self.vector[None], x[:-1]))
        self.vector = x[-1].copy()
        return (mix * x) + ((1.0 - mix) * before)


CODES: Final = 127.0
"""The largest code of an 8-bit cache."""


@dataclass(frozen=True)
class Eviction:
    """Which tokens stay: the first `sinks`, and the newest `recent`, the current one included."""

    sinks: int
    recent: int

    @property
    def kept(self) -> int:
        """How many tokens stay."""
        return self.sinks + self.recent


@dataclass(frozen=True, eq=False)
class CacheSnapshot:
    """A copy of what a cache holds: keys and values [tokens, 2 · width], and which of them stay."""

    rows: Array
    eviction: Eviction | None


class AttentionCache:
    """Keys and values of one layer, a row a token; keys keep the rotation that they were stored with.

    A cached layer is always causal. A windowed one stores every row and looks at the newest `window`.

    Attributes:
        length: how many tokens the cache holds.
        eviction: which tokens stay; None for all.
        eight_bits: whether keys and values are rounded to 8 bits.
    """

    def __init__(self, layer: DotProductAttention, capacity: int) -> None:
        self.length = 0
        self.eviction: Eviction | None = None
        self.eight_bits = False
        self._width = layer.width
        self._window = layer.window
        self._factor = 1.0 / math.sqrt(layer.width)
        self._rows = np.zeros((capacity, 2 * layer.width))
        # For each token since the mark, the row that it drove out.
        self._evicted: list[Array | None] = []

    @property
    def width(self) -> int:
        """How wide a row is."""
        return self._rows.shape[1]

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return self._rows.shape[0]

    @property
    def windowed(self) -> bool:
        """Whether the layer looks at the newest rows only."""
        return self._window is not None

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Append the key and value of each token of Q | K | V [tokens, 3 · width], and attend: [tokens, width].

        Raises:
            NetSessionError (cache-overflow): they do not fit, and nothing is evicted; nothing has been appended.
        """
        if self.eviction is None and self.length + x.shape[0] > self.capacity:
            raise NetSessionError("cache-overflow", length=self.length, tokens=x.shape[0], capacity=self.capacity)
        width = self._width
        mixed = np.empty((x.shape[0], width))
        for token, row in enumerate(x):
            self._append(row[width:])
            mixed[token] = self._attend(arithmetic, row[:width])
        return mixed

    def mark(self) -> None:
        """Make this the point to which `undo` returns."""
        self._evicted.clear()

    def undo(self) -> None:
        """Take back every token since the mark."""
        while self._evicted:
            row = self._evicted.pop()
            self.length -= 1
            if row is not None and self.eviction is not None:
                sinks = self.eviction.sinks
                self._rows[sinks + 1 : self.length + 1] = self._rows[sinks : self.length]
                self._rows[sinks] = row
                self.length += 1

    def snapshot(self) -> CacheSnapshot:
        """Copy what the cache holds."""
        return CacheSnapshot(self._rows[: self.length].copy(), self.eviction)

    def restore(self, snapshot: CacheSnapshot) -> None:
        """Hold what a snapshot of the same width holds, for which there must be room."""
        self.mark()
        self.length, self.eviction = len(snapshot.rows), snapshot.eviction
        self._rows[: self.length] = snapshot.rows

    def _append(self, row: Array) -> None:
        evicted = None
        if self.eviction is not None and self.length == self.eviction.kept:
            sinks = self.eviction.sinks
            evicted = self._rows[sinks].copy()
            self._rows[sinks : self.length - 1] = self._rows[sinks + 1 : self.length]
            self.length -= 1
        stored = self._rows[self.length]
        stored[:] = row
        if self.eight_bits:
            stored[: self._width] = _in_eight_bits(row[: self._width])
            stored[self._width :] = _in_eight_bits(row[self._width :])
        self.length += 1
        self._evicted.append(evicted)

    def _attend(self, arithmetic: Arithmetic, query: Array) -> Array:
        first = 0 if self._window is None else max(0, self.length - self._window)
        seen = self._rows[first : self.length]
        scores = arithmetic.matmul(seen[:, : self._width], query[:, None]) * self._factor
        p = arithmetic.exp(scores - scores.max())
        p /= arithmetic.sum(p)
        return arithmetic.matmul(p.T, seen[:, self._width :]).reshape(self._width)


NetMemory: TypeAlias = AttentionCache | Recurrence | PreviousToken
"""What is kept of one layer from step to step: it is fed tokens [tokens, depth] and gives the layer's output for them.

`mark` sets the point to which `undo` returns, so that a step that fails can be taken back.
"""


def _in_eight_bits(row: Array) -> Array:
    """Return what is read back of a row: the nearest multiples of max |row| / 127, ties to even."""
    # What is too small to be divided is stored as 0.
    step = float(np.max(np.abs(row))) / CODES or 1.0
    return np.clip(np.rint(row / step), -CODES, CODES) * step
