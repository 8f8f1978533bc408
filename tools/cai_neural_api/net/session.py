"""A streaming session on a net: tokens go in a few at a time, caches and recurrences remember the rest.

It collects what the library's session collects: attention caches, recurrences and rotary layers. A token shift is not
among them, so that its first token of every step has nothing before it; the library carries it only where the whole net
is switched to incremental use, which `carries_shift` stands for.

Where the library prints a line and goes on with what it has, a session raises and stays as it was. With
`stale_overflow` it does as the library does when the caches are full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cai_neural_api.errors import NetError, NetSessionError
from cai_neural_api.net.cache import (
    AttentionCache,
    CacheSnapshot,
    Eviction,
    NetMemory,
    PreviousToken,
    Recurrence,
    VectorMemory,
)
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.attention import WHOLE_SEQUENCE, DotProductAttention, Rotary
from cai_neural_api.net.layers.layer import Layer
from cai_neural_api.net.layers.learned import DiagonalSsmLayer, TokenShiftLayer
from cai_neural_api.net.layers.pointwise import Softmax
from cai_reference.arithmetic import Arithmetic, Array

Passage: TypeAlias = Callable[[Sequence[Array], int], Array]
"""From a layer's inputs [1, tokens, depth] and the position of the first token to its output."""


@dataclass(frozen=True, eq=False)
class NetSnapshot:
    """A copy of everything remembered; positions are not part of it, every step states its own.

    Attributes:
        caches: one an attention layer.
        recurrences: the state of each.
        shifts: the token before, of each token shift that is carried.
    """

    caches: tuple[CacheSnapshot, ...]
    recurrences: tuple[Array, ...]
    shifts: tuple[Array, ...]


class NetSession:
    """One sequence streamed through a net.

    Attributes:
        net: weights are read at every step, so that what an optimiser changes counts from the next step on.
        arithmetic: of all steps.
        capacity: how many tokens each cache has room for.

    Raises:
        NetSessionError (no-capacity): the capacity is below 1.
        NetSessionError (not-streamable): a layer needs the whole sequence.
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
            raise NetSessionError("no-capacity", capacity=capacity)
        for index, layer in enumerate(net.layers):
            if isinstance(layer, WHOLE_SEQUENCE) or (isinstance(layer, Softmax) and layer.masked):
                raise NetSessionError("not-streamable", layer=index, kind=net.specs[index].kind)
        self.net = net
        self.arithmetic = arithmetic
        self.capacity = capacity
        self._stale_overflow = stale_overflow
        layers = list(enumerate(net.layers))
        self._caches = {
            index: AttentionCache(layer, capacity) for index, layer in layers if isinstance(layer, DotProductAttention)
        }
        self._recurrences = {index: Recurrence(layer) for index, layer in layers if isinstance(layer, DiagonalSsmLayer)}
        self._shifts = {
            index: PreviousToken(layer)
            for index, layer in layers
            if carries_shift and isinstance(layer, TokenShiftLayer)
        }
        memories: dict[int, NetMemory] = {**self._caches, **self._recurrences, **self._shifts}
        self._memories = tuple(memories.values())
        self._passages = tuple(
            (net.specs[index].inputs, self._passage(index, layer, memories.get(index))) for index, layer in layers
        )
        self._outputs: tuple[Array, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many attention caches, recurrences and rotary layers there are."""
        rotary = sum(isinstance(layer, Rotary) for layer in self.net.layers)
        return len(self._caches), len(self._recurrences), rotary

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens each attention cache holds, in the order of the layers."""
        return tuple(cache.length for cache in self._caches.values())

    @property
    def hidden_state(self) -> Array:
        """What feeds the output projection, for the tokens of the newest step: [tokens, depth].

        Raises:
            NetSessionError (nothing-fed): there was no step.
        """
        if not self._outputs:
            raise NetSessionError("nothing-fed")
        hidden: Array = self._outputs[self.net.hidden_layer][0]
        return hidden

    def reset(self) -> None:
        """Forget every token; eviction and cache format stay."""
        for cache in self._caches.values():
            cache.length = 0
        for memory in self._vectors():
            memory.reset()

    def step(self, ids: Sequence[float] | Sequence[Sequence[float]], position: int) -> tuple[Array, ...]:
        """Feed tokens, the first at `position`, and return the output [tokens, depth] of every layer.

        A token is an id, or a row of values where the input is deeper than 1. That the position is the number of tokens
        fed so far is up to the caller, as in the library. A step that raises leaves the session as it was.

        Raises:
            NetSessionError (nothing-fed): there are no tokens.
            NetError (wrong-input): they are not as deep as the input.
            NetError (net-token-out-of-range): an id has no row in the embedding.
            NetSessionError (cache-overflow): the tokens do not fit into the caches.
            NetError (non-finite-output): the output is not finite.
        """
        if not len(ids):
            raise NetSessionError("nothing-fed")
        x = np.asarray(ids, np.float64).reshape(1, len(ids), -1)
        if x.shape[2] != self.net.shapes[0].depth:
            raise NetError("wrong-input", context=self.net.context, depth=self.net.shapes[0].depth, shape=x.shape)
        for memory in self._memories:
            memory.mark()
        try:
            outputs: list[Array] = []
            with np.errstate(over="ignore", invalid="ignore"):
                for sources, passage in self._passages:
                    outputs.append(passage([outputs[source] for source in sources] or [x], position))
            self.net.check_finite(outputs)
        except BaseException:
            for memory in self._memories:
                memory.undo()
            raise
        self._outputs = tuple(outputs)
        return tuple(output[0] for output in outputs)

    def truncate(self, length: int) -> None:
        """Cut every cache back to `length` tokens.

        Raises:
            NetSessionError (recurrence-stays): a layer keeps one state, which cannot follow.
            NetSessionError (cut-out-of-range): a cache is shorter.
        """
        for index in (*self._recurrences, *self._shifts):
            raise NetSessionError("recurrence-stays", layer=index, kind=self.net.specs[index].kind, wanted=length)
        for held in self.lengths:
            if not 0 <= length <= held:
                raise NetSessionError("cut-out-of-range", wanted=length, length=held)
        for cache in self._caches.values():
            cache.length = length

    def evict(self, eviction: Eviction | None) -> None:
        """Keep only sinks and recent tokens from now on; None ends it.

        Raises:
            NetSessionError (eviction-refused): no sink, no recent token, more than the capacity, or a windowed layer.
        """
        if eviction is not None:
            self._check_eviction(eviction)
        for cache in self._caches.values():
            cache.eviction = eviction

    def quantise(self, eight_bits: bool = True) -> None:
        """Store keys and values in 8 bits from now on, or in full again.

        Raises:
            NetSessionError (quantisation-refused): the caches are not empty.
        """
        if any(self.lengths):
            raise NetSessionError("quantisation-refused", reason="caches change their format only while they are empty")
        for cache in self._caches.values():
            cache.eight_bits = eight_bits

    def snapshot(self) -> NetSnapshot:
        """Copy caches, recurrences and carried token shifts.

        Raises:
            NetSessionError (quantisation-refused): the caches are in 8 bits.
        """
        self._check_full_format()
        return NetSnapshot(
            tuple(cache.snapshot() for cache in self._caches.values()),
            tuple(recurrence.vector for recurrence in self._recurrences.values()),
            tuple(shift.vector for shift in self._shifts.values()),
        )

    def restore(self, snapshot: NetSnapshot) -> None:
        """Return to a snapshot, which stays usable; what follows has the same bits as what followed it.

        It may come from another session, of another capacity too, on a net with layers of the same sizes.

        Raises:
            NetSessionError (foreign-snapshot): what it holds differs in number or width.
            NetSessionError (snapshot-too-long): the caches have no room for it, or for what its eviction keeps.
            NetSessionError (quantisation-refused): the caches are in 8 bits.
        """
        self._check_full_format()
        for what, given, own in (
            ("caches", tuple(cache.rows.shape[1] for cache in snapshot.caches), self._caches),
            ("recurrences", tuple(state.size for state in snapshot.recurrences), self._recurrences),
            ("token shifts", tuple(state.size for state in snapshot.shifts), self._shifts),
        ):
            expected = tuple(memory.width for memory in own.values())
            if given != expected:
                raise NetSessionError("foreign-snapshot", what=what, given=given, expected=expected)
        for held in snapshot.caches:
            needed = max(len(held.rows), 0 if held.eviction is None else held.eviction.kept)
            if needed > self.capacity:
                raise NetSessionError("snapshot-too-long", needed=needed, capacity=self.capacity)
        for cache, held in zip(self._caches.values(), snapshot.caches, strict=True):
            cache.restore(held)
        for memory, vector in zip(self._vectors(), (*snapshot.recurrences, *snapshot.shifts), strict=True):
            memory.vector = vector

    def _passage(self, index: int, layer: Layer, memory: NetMemory | None) -> Passage:
        """Return the way through one layer."""
        if isinstance(memory, AttentionCache) and self._stale_overflow:
            return lambda inputs, position: self._stale(index, memory, inputs[0])
        if memory is not None:
            return lambda inputs, position: memory.feed(self.arithmetic, inputs[0][0])[None]
        if isinstance(layer, Rotary):
            return lambda inputs, position: layer.turned(self.arithmetic, inputs[0], position)
        return lambda inputs, position: layer.forward(self.arithmetic, inputs)[0]

    def _stale(self, index: int, cache: AttentionCache, x: Array) -> Array:
        """Feed a cache; where it is full, return what it returned in the step before."""
        try:
            return cache.feed(self.arithmetic, x[0])[None]
        except NetSessionError as error:
            if error.code != "cache-overflow":
                raise
            if not self._outputs or self._outputs[index].shape[1] != x.shape[1]:
                raise
        return self._outputs[index]

    def _vectors(self) -> tuple[VectorMemory, ...]:
        return (*self._recurrences.values(), *self._shifts.values())

    def _check_full_format(self) -> None:
        if any(cache.eight_bits for cache in self._caches.values()):
            raise NetSessionError("quantisation-refused", reason="caches in 8 bits are not copied")

    def _check_eviction(self, eviction: Eviction) -> None:
        def refused(reason: str) -> NetSessionError:
            return NetSessionError("eviction-refused", sinks=eviction.sinks, recent=eviction.recent, reason=reason)

        if eviction.sinks < 1:
            raise refused("the library takes no sinks for no eviction, for which None stands")
        if eviction.recent < 1:
            raise refused("at least the current token has to stay")
        if eviction.kept > self.capacity:
            raise refused(f"the caches have room for {self.capacity}")
        if any(cache.windowed for cache in self._caches.values()):
            raise refused("a layer has a window already")
        if any(length > eviction.kept for length in self.lengths):
            raise refused("the caches hold more already")
