"""The cache of one attention layer, as chapter 37 has it: one token a call, and only for the layer it was made for.

The keys, the values and the attention itself are the streaming session's own. What this adds is what the course asks
of a cache: that it refuses whatever it was not made for and stays as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cai_conformance.course.errors import CacheRefused, Refusal
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.attend import weights_of
from cai_reference.decoding.layer_states import GroupedQueryState, apply, by_head, turn_heads
from cai_reference.layers.grouped_query_attention import GroupedQueryAttention


@dataclass(frozen=True)
class PositionedAttention:
    """An attention layer with as many heads of keys as of queries, for so many positions."""

    mixer: GroupedQueryAttention
    positions: int

    @property
    def width(self) -> int:
        """The model width."""
        return self.mixer.query.weight.shape[0]


@dataclass(frozen=True)
class CachedStep:
    """One token through the layer.

    Attributes:
        output: shape [width].
        keys: of all tokens, rotated, shape [heads, tokens, w].
        values: shape [heads, tokens, w].
        weights: of the new token on all of them, shape [heads, tokens].
    """

    output: Array
    keys: Array
    values: Array
    weights: Array


class LayerCache:
    """Keys and values of one layer, for at most `capacity` tokens."""

    def __init__(self, layer: PositionedAttention, capacity: int, arithmetic: Arithmetic) -> None:
        self.state = GroupedQueryState.empty(layer.mixer, capacity, 0)
        self._layer = layer
        self._capacity = capacity
        self._tape = Tape(arithmetic, recording=False)

    @property
    def length(self) -> int:
        """How many tokens are remembered."""
        return self.state.keys.length

    def remembered(self) -> tuple[int, bytes, bytes]:
        """Return the length and the bits of keys and values; what an unused place holds does not count."""
        return self.length, self.state.keys.rows().tobytes(), self.state.values.rows().tobytes()

    def step(self, layer: PositionedAttention, rows: Array) -> CachedStep:
        """Feed one row [1, width] at the next position.

        Raises:
            CacheRefused: more than one row, another layer than the cache's own, or no place left.
            NonFiniteScore, AutogradError: a number left the range of binary64.
        """
        self._check(layer, rows)
        mixer, position = layer.mixer, self.length
        with np.errstate(over="ignore", invalid="ignore"):
            output, after = self.state.feed(self._tape, rows, position)
            query = turn_heads(self._tape, apply(self._tape, mixer.query, rows), mixer.heads, position, mixer.rope)
        if not isinstance(after, GroupedQueryState):
            raise TypeError(type(after).__name__)
        self.state = after
        keys, values = (by_head(store.rows(), mixer.heads) for store in (after.keys, after.values))
        return CachedStep(output[0], keys, values, self._weights(query[0], keys))

    def reset(self) -> None:
        """Forget all tokens; the storage stays as it is."""
        self.state = self.state.truncated(0)

    def _weights(self, query: Array, keys: Array) -> Array:
        """Return the weights [heads, tokens] of one query [heads, w], which attention computes and does not keep."""
        arithmetic = self._tape.arithmetic
        scores = arithmetic.matmul(query[:, None, :], np.swapaxes(keys, 1, 2))[:, 0, :]
        return weights_of(arithmetic, scores * (1.0 / math.sqrt(query.shape[1])))

    def _check(self, layer: PositionedAttention, rows: Array) -> None:
        own, mixer = self._layer.mixer, layer.mixer
        same_weights = all(one is other for one, other in zip(own.parameters(), mixer.parameters(), strict=True))
        for refused, refusal in (
            (rows.shape[0] != 1, Refusal.TOKENS),
            (rows.shape[1] != self._layer.width or layer.width != self._layer.width, Refusal.WIDTH),
            (mixer.heads != own.heads, Refusal.HEADS),
            (mixer.rope != own.rope, Refusal.ROPE),
            (layer.positions != self._layer.positions, Refusal.POSITIONS),
            (not same_weights, Refusal.WEIGHTS),
            (self.length >= min(self._capacity, layer.positions), Refusal.FULL),
        ):
            if refused:
                raise CacheRefused(refusal)
