"""The key and value cache of one attention layer: full, with sinks and recent tokens only, or in 8 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.errors import CacheOverflow, CutOutOfRange
from cai_reference.nets.graph.layers.attention import DotProductAttention

CODES: Final = 127.0
"""The largest code of an 8-bit cache."""


@dataclass(frozen=True)
class Eviction:
    """Which tokens stay: the first `sinks`, and the newest `recent`, the current one included."""

    sinks: int
    recent: int


class AttentionCache:
    """Keys and values of one layer, a row a token; keys keep the rotation that they were stored with.

    A cached layer is always causal. A windowed one stores every row and looks at the newest `window`.
    """

    def __init__(self, layer: DotProductAttention, capacity: int) -> None:
        self.layer = layer
        self.length = 0
        self.eviction: Eviction | None = None
        self.eight_bits = False
        self._rows = np.zeros((capacity, 2 * layer.width))

    @property
    def capacity(self) -> int:
        """How many rows there is room for."""
        return self._rows.shape[0]

    def feed(self, arithmetic: Arithmetic, x: Array) -> Array:
        """Append the key and value of each token of Q | K | V [tokens, 3 · width], and attend: [tokens, width].

        Raises:
            CacheOverflow: they do not fit, and nothing is evicted; nothing has been appended.
        """
        if self.eviction is None and self.length + x.shape[0] > self.capacity:
            raise CacheOverflow(self.length, x.shape[0], self.capacity)
        width = self.layer.width
        mixed = np.empty((x.shape[0], width))
        for token, row in enumerate(x):
            self._append(row[width:])
            mixed[token] = self._attend(arithmetic, row[:width])
        return mixed

    def truncate(self, length: int) -> None:
        """Forget all rows but the first `length`.

        Raises:
            CutOutOfRange: there are not so many.
        """
        if not 0 <= length <= self.length:
            raise CutOutOfRange(length, self.length)
        self.length = length

    def copy(self) -> AttentionCache:
        """Return a cache that shares nothing with this one."""
        copied = AttentionCache(self.layer, self.capacity)
        copied.length, copied.eviction, copied.eight_bits = self.length, self.eviction, self.eight_bits
        copied._rows[:] = self._rows
        return copied

    def _append(self, row: Array) -> None:
        if self.eviction is not None and self.length == self.eviction.sinks + self.eviction.recent:
            self._rows[self.eviction.sinks : self.length - 1] = self._rows[self.eviction.sinks + 1 : self.length]
            self.length -= 1
        width = self.layer.width
        self._rows[self.length, :width] = self._stored(row[:width])
        self._rows[self.length, width:] = self._stored(row[width:])
        self.length += 1

    def _attend(self, arithmetic: Arithmetic, query: Array) -> Array:
        width, window = self.layer.width, self.layer.window
        first = 0 if window is None else max(0, self.length - window)
        seen = self._rows[first : self.length]
        scores = arithmetic.matmul(seen[:, :width], query[:, None])[:, 0] * (1.0 / math.sqrt(width))
        exponential = arithmetic.exp(scores - np.max(scores))
        p = exponential / arithmetic.sum(exponential)
        return arithmetic.matmul(p[None, :], seen[:, width:]).reshape(width)

    def _stored(self, row: Array) -> Array:
        """Return what is read back of a row: in 8 bits, the nearest multiple of max |row| / 127, ties to even."""
        if not self.eight_bits:
            return row
        largest = float(np.max(np.abs(row)))
        step = largest / CODES if largest > 0.0 else 1.0
        return np.clip(np.rint(row / step), -CODES, CODES) * step
