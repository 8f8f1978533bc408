"""A streaming session on a net: tokens go in a few at a time, caches and recurrences remember the rest.

It collects what the library's session collects: attention caches, recurrences and rotary layers. A token shift is not
among them, so that its first token of every step has nothing before it; the library carries it only where the whole net
is switched to incremental use, which `carries_shift` stands for.

Where the library prints a line and goes on with what it has, a session raises and stays as it was. With
`stale_overflow` it does as the library does when the caches are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import sigmoid
from cai_reference.nets.graph.cache import AttentionCache, Eviction
from cai_reference.nets.graph.errors import (
    CacheOverflow,
    EvictionRefused,
    ForeignSnapshot,
    NoCapacity,
    NothingFed,
    NotStreamable,
    QuantisationRefused,
    RecurrenceStays,
)
from cai_reference.nets.graph.layers.activations import Softmax
from cai_reference.nets.graph.layers.attention import DotProductAttention, DotProducts, Rotary, TransposeXD
from cai_reference.nets.graph.layers.layer import Layer
from cai_reference.nets.graph.layers.vectors import DiagonalSsm, TokenShift
from cai_reference.nets.graph.net import Net

WHOLE_SEQUENCE: Final = (DotProducts, TransposeXD)


@dataclass(frozen=True)
class NetSnapshot:
    """A copy of caches and recurrences; positions are not part of it, every step states its own."""

    caches: tuple[AttentionCache, ...]
    recurrences: tuple[Array, ...]


class NetSession:
    """One sequence streamed through a net.

    Raises:
        NoCapacity: the capacity is below 1.
        NotStreamable: a layer needs the whole sequence.
    """

    def __init__(
        self,
        net: Net,
        arithmetic: Arithmetic,
        capacity: int,
        *,
        carries_shift: bool = False,
        stale_overflow: bool = False,
    ) -> None:
        if capacity < 1:
            raise NoCapacity(capacity)
        for index, layer in enumerate(net.layers):
            if isinstance(layer, WHOLE_SEQUENCE) or (isinstance(layer, Softmax) and layer.masked):
                raise NotStreamable(index, net.specs[index].kind)
        self.net = net
        self.arithmetic = arithmetic
        self._capacity = capacity
        self._carries_shift = carries_shift
        self._stale_overflow = stale_overflow
        self._caches = {
            index: AttentionCache(layer, capacity)
            for index, layer in enumerate(net.layers)
            if isinstance(layer, DotProductAttention)
        }
        self._last: dict[int, Array] = {}
        self.reset()

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many attention caches, recurrences and rotary layers there are."""
        rotary = sum(isinstance(layer, Rotary) for layer in self.net.layers)
        return len(self._caches), len(self._recurrences), rotary

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens each attention cache holds, in the order of the layers."""
        return tuple(cache.length for cache in self._caches.values())

    def reset(self) -> None:
        """Forget everything that was fed; eviction and cache format stay."""
        for cache in self._caches.values():
            cache.truncate(0)
        self._recurrences = {
            index: np.zeros(layer.learned.weights[0].size)
            for index, layer in enumerate(self.net.layers)
            if isinstance(layer, DiagonalSsm)
        }
        self._shifted = {
            index: np.zeros(layer.learned.weights[0].size)
            for index, layer in enumerate(self.net.layers)
            if isinstance(layer, TokenShift)
        }

    def step(self, ids: Sequence[int] | Sequence[float], position: int) -> tuple[Array, ...]:
        """Feed tokens, the first at `position`, and return the output [tokens, depth] of every layer.

        That the position is the number of tokens fed so far is up to the caller, as in the library.

        Raises:
            NothingFed, NetTokenOutOfRange: before anything is remembered.
            CacheOverflow: the tokens do not fit into the caches; nothing is remembered.
        """
        if not len(ids):
            raise NothingFed
        self._check_room(len(ids))
        x = np.asarray(ids, np.float64).reshape(1, -1, 1)
        outputs: list[Array] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for index, (spec, layer) in enumerate(zip(self.net.specs, self.net.layers, strict=True)):
                inputs = [outputs[source] for source in spec.inputs] or [x]
                outputs.append(self._through(index, layer, inputs, position))
        return tuple(output[0] for output in outputs)

    def truncate(self, length: int) -> None:
        """Cut every cache back to `length` tokens.

        Raises:
            RecurrenceStays: the net has a recurrence, which cannot follow.
            CutOutOfRange: a cache is shorter.
        """
        for layer in self._recurrences:
            raise RecurrenceStays(layer, length)
        for cache in self._caches.values():
            cache.copy().truncate(length)
        for cache in self._caches.values():
            cache.truncate(length)

    def evict(self, eviction: Eviction | None) -> None:
        """Keep only sinks and recent tokens from now on; None ends it.

        Raises:
            EvictionRefused: no recent token, more than the capacity, or a windowed layer.
        """
        if eviction is not None:
            self._check_eviction(eviction)
        for cache in self._caches.values():
            cache.eviction = eviction

    def quantise(self, eight_bits: bool = True) -> None:
        """Store keys and values in 8 bits from now on, or in full again.

        Raises:
            QuantisationRefused: the caches are not empty.
        """
        if any(self.lengths):
            raise QuantisationRefused("caches change their format only while they are empty")
        for cache in self._caches.values():
            cache.eight_bits = eight_bits

    def snapshot(self) -> NetSnapshot:
        """Copy caches and recurrences.

        Raises:
            QuantisationRefused: the caches are in 8 bits.
        """
        if any(cache.eight_bits for cache in self._caches.values()):
            raise QuantisationRefused("caches in 8 bits are not copied")
        return NetSnapshot(
            tuple(cache.copy() for cache in self._caches.values()),
            tuple(state.copy() for state in self._recurrences.values()),
        )

    def restore(self, snapshot: NetSnapshot) -> None:
        """Return to a snapshot, which stays usable; what follows has the same bits as what followed it.

        Raises:
            ForeignSnapshot: it has other numbers of caches or recurrences, or longer ones.
        """
        given = (len(snapshot.caches), len(snapshot.recurrences))
        if given != self.counts[:2] or any(cache.capacity != self._capacity for cache in snapshot.caches):
            raise ForeignSnapshot(given, self.counts[:2])
        self._caches = dict(zip(self._caches, (cache.copy() for cache in snapshot.caches), strict=True))
        states = (state.copy() for state in snapshot.recurrences)
        self._recurrences = dict(zip(self._recurrences, states, strict=True))

    def _through(self, index: int, layer: Layer, inputs: Sequence[Array], position: int) -> Array:
        if isinstance(layer, DotProductAttention):
            return self._attended(index, inputs[0])
        if isinstance(layer, DiagonalSsm):
            return self._recurred(index, layer, inputs[0])
        if isinstance(layer, TokenShift) and self._carries_shift:
            return self._mixed(index, layer, inputs[0])
        if isinstance(layer, Rotary):
            return layer.turned(self.arithmetic, inputs[0], position)
        return layer.forward(self.arithmetic, inputs)[0]

    def _attended(self, index: int, x: Array) -> Array:
        try:
            self._last[index] = self._caches[index].feed(self.arithmetic, x[0])[None]
        except CacheOverflow:
            if not self._stale_overflow or index not in self._last:
                raise
        return self._last[index]

    def _recurred(self, index: int, layer: DiagonalSsm, x: Array) -> Array:
        a_raw, b, c, e = layer.learned.weights
        a = sigmoid(self.arithmetic, a_raw)
        state = self._recurrences[index]
        y = np.empty(x.shape)
        for token, row in enumerate(x[0]):
            state = (a * state) + (b * row)
            y[0, token] = (c * state) + (e * row)
        self._recurrences[index] = state
        return y

    def _mixed(self, index: int, layer: TokenShift, x: Array) -> Array:
        (mix,) = layer.learned.weights
        before = np.concatenate((self._shifted[index][None, None], x[:, :-1]), axis=1)
        self._shifted[index] = x[0, -1].copy()
        return (mix * x) + ((1.0 - mix) * before)

    def _check_room(self, tokens: int) -> None:
        if self._stale_overflow:
            return
        for cache in self._caches.values():
            if cache.eviction is None and cache.length + tokens > cache.capacity:
                raise CacheOverflow(cache.length, tokens, cache.capacity)

    def _check_eviction(self, eviction: Eviction) -> None:
        def refused(reason: str) -> EvictionRefused:
            return EvictionRefused(eviction.sinks, eviction.recent, reason)

        if eviction.sinks < 0 or eviction.recent < 1:
            raise refused("at least the current token has to stay")
        if eviction.sinks + eviction.recent > self._capacity:
            raise refused(f"the caches have room for {self._capacity}")
        if any(cache.layer.window is not None for cache in self._caches.values()):
            raise refused("a layer has a window already")
        if any(length > eviction.sinks + eviction.recent for length in self.lengths):
            raise refused("the caches hold more already")
