"""What a session keeps of each mixer, and how a mixer goes on from it: one class a mixer, all of one shape.

Each class feeds rows one token at a time through its own attention or recurrence, returns the mixed rows with a *new*
state, cuts itself back where that is exact and refuses where it is not, and accounts for every float it holds. The
projections are those of the layer; the mixing is not.

Rows by position: what a cache of keys, values or latents is made of.

Without a window every row stays, in a buffer of the session's capacity. With a window W the last W + S rows stay in a
ring: W for attention, S for rolling back. A store is never changed in place where an older one could see it, so that
a failed feed leaves nothing behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape
from cai_reference.autograd.operations import sigmoid
from cai_reference.decoding.attend import attend_one
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.matrices import Projection
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.rope import Rope, rotation, turn


@dataclass(frozen=True)
class RowStore:
    """Rows of one width.

    Attributes:
        storage: shape [places, width]; position p lies at place p, in a ring at p mod places.
        length: how many positions were appended and not cut off.
        base: the oldest position whose row is still there.
        window: how many rows attention sees, the newest included; None for all.
    """

    storage: Array
    length: int
    base: int
    window: int | None

    @classmethod
    def empty(cls, width: int, capacity: int, window: int | None, slack: int) -> RowStore:
        """Allocate `capacity` places, or a ring of window + slack."""
        # a ring larger than the capacity would never be filled
        places = capacity if window is None else min(capacity, window + slack)
        return cls(np.zeros((places, width)), 0, 0, window)

    @property
    def visible(self) -> int:
        """How many rows the newest token attends to; right after a cut, its dropped rows are left out."""
        return self.held if self.window is None else min(self.held, self.window)

    @property
    def held(self) -> int:
        """How many rows are there, those kept for rolling back included."""
        return self.length - self.base

    def writable(self) -> RowStore:
        """Return a store that may be appended to while this one stays readable.

        A ring overwrites rows that this store still sees, so it is copied; a buffer only grows behind its length.
        """
        return replace(self, storage=self.storage.copy()) if self.window is not None else self

    def append(self, row: Array) -> RowStore:
        """Return the store with one more row [width]; a full ring drops its oldest."""
        places = self.storage.shape[0]
        # without a window there are as many places as tokens, and the modulus does nothing
        self.storage[self.length % places] = row
        base = max(self.base, self.length + 1 - places)
        return replace(self, length=self.length + 1, base=base)

    def rows(self) -> Array:
        """Return the visible rows [visible, width] in position order."""
        places = self.storage.shape[0]
        # oldest first: sums over keys ascend by position
        first = self.length - self.visible
        rows: Array = self.storage[np.arange(first, self.length) % places]
        return rows

    def earliest(self) -> int:
        """Return the smallest length to which the store can be cut without missing a row later."""
        if self.base == 0 or self.window is None:
            return 0
        # the next token sees window − 1 rows before it; all of them have to be there
        return self.base + self.window - 1

    def truncated(self, length: int) -> RowStore:
        """Return the store cut to a length that is not below `earliest`."""
        return replace(self, length=length)

    def copy(self) -> RowStore:
        """Return a store that shares nothing with this one."""
        return replace(self, storage=self.storage.copy())


@dataclass(frozen=True)
class Accounting:
    """How many floats a layer's cache holds.

    Attributes:
        floats: live state, what the formula speaks of.
        slack: rows or states kept for rolling back.
        allocated: the sizes of the arrays.
        formula: the live state as a formula of width d, tokens t, window W, heads H, latent L, rope r; of grouped
            queries, of heads of keys and values G, each w wide.
    """

    floats: int
    slack: int
    allocated: int
    formula: str


class LayerState(Protocol):
    """The cache of one mixer."""

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Mix new rows [tokens, width], the first at `position`; return the mixed rows and the state after them."""
        ...

    def earliest(self) -> int:
        """Return the smallest length to which the state can be cut."""
        ...

    def truncated(self, length: int) -> LayerState:
        """Return the state cut to a length that is not below `earliest`."""
        ...

    def copy(self) -> LayerState:
        """Return a state that shares nothing with this one."""
        ...

    def accounting(self) -> Accounting:
        """Count the floats."""
        ...


@dataclass(frozen=True)
class KeyValueState:
    """Rotated keys and raw values, a row of all heads a token; what attention of any number of heads keeps."""

    keys: RowStore
    values: RowStore

    def attended(self, tape: Tape, query: Array, key: Array, value: Array) -> tuple[Array, Self]:
        """Append keys and values token by token, attend to what is visible; return mixtures and the state after them.

        Args:
            tape: whose arithmetic is used.
            query: rotated queries, shape [tokens, heads, w].
            key: rotated keys, shape [tokens, groups, w]; query head h reads group h div (heads / groups).
            value: shape [tokens, groups, w].

        Returns:
            The mixtures [tokens, heads · w], and the state.
        """
        tokens, groups = key.shape[:2]
        factor = 1.0 / math.sqrt(query.shape[2])
        keys, values = self.keys.writable(), self.values.writable()
        mixed = np.empty((tokens, query.shape[1] * value.shape[2]))
        for token in range(tokens):
            # the token sees itself
            keys, values = keys.append(key[token].ravel()), values.append(value[token].ravel())
            seen, held = by_head(keys.rows(), groups), by_head(values.rows(), groups)
            mixed[token] = attend_one(tape.arithmetic, query[token], seen, held, factor).ravel()
        return mixed, replace(self, keys=keys, values=values)

    def earliest(self) -> int:
        """Return how far the ring reaches back."""
        return self.keys.earliest()

    def truncated(self, length: int) -> Self:
        """Forget the rows behind `length`."""
        return replace(self, keys=self.keys.truncated(length), values=self.values.truncated(length))

    def copy(self) -> Self:
        """Copy both stores."""
        return replace(self, keys=self.keys.copy(), values=self.values.copy())


@dataclass(frozen=True)
class AttentionState(KeyValueState):
    """Keys and values of every head."""

    mixer: Attention

    @classmethod
    def empty(cls, mixer: Attention, width: int, capacity: int, slack: int) -> AttentionState:
        """Allocate for `capacity` tokens, or for window + slack."""
        keys, values = (RowStore.empty(width, capacity, mixer.window, slack) for _ in range(2))
        return cls(keys, values, mixer)

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Append a key and a value a token, attend to what is visible."""
        width, heads, rope = x.shape[1], self.mixer.heads, Rope(self.mixer.rope_base)
        slab = apply(tape, self.mixer.slab, x)
        query, key, value = (slab[:, part * width : (part + 1) * width] for part in range(3))
        query, key = (turn_heads(tape, part, heads, position, rope) for part in (query, key))
        mixed, after = self.attended(tape, query, key, value.reshape(key.shape))
        return apply(tape, self.mixer.output, mixed), after

    def accounting(self) -> Accounting:
        """Count two rows of width d a token."""
        formula = "2*d*t" if self.mixer.window is None else "2*d*min(t,W)"
        return account((self.keys, self.values), formula)


@dataclass(frozen=True)
class GroupedQueryState(KeyValueState):
    """Keys and values of the heads that query heads share."""

    mixer: GroupedQueryAttention

    @classmethod
    def empty(cls, mixer: GroupedQueryAttention, capacity: int, slack: int) -> GroupedQueryState:
        """Allocate for `capacity` tokens, or for window + slack."""
        width = mixer.key_value_heads * mixer.head_width
        keys, values = (RowStore.empty(width, capacity, mixer.window, slack) for _ in range(2))
        return cls(keys, values, mixer)

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Append a key and a value a token, attend to what is visible."""
        mixer = self.mixer
        query = turn_heads(tape, apply(tape, mixer.query, x), mixer.heads, position, mixer.rope)
        key = turn_heads(tape, apply(tape, mixer.key, x), mixer.key_value_heads, position, mixer.rope)
        mixed, after = self.attended(tape, query, key, apply(tape, mixer.value, x).reshape(key.shape))
        return apply(tape, mixer.output, mixed), after

    def accounting(self) -> Accounting:
        """Count two rows of G · w a token."""
        formula = "2*G*w*t" if self.mixer.window is None else "2*G*w*min(t,W)"
        return account((self.keys, self.values), formula)


@dataclass(frozen=True)
class SsmState:
    """The recurrence's state after each of the last S + 1 lengths; the newest is the live one."""

    mixer: DiagonalSsm
    states: tuple[Array, ...]
    length: int
    slack: int

    @classmethod
    def empty(cls, mixer: DiagonalSsm, width: int, slack: int) -> SsmState:
        """Start from zero."""
        return cls(mixer, (np.zeros(width),), 0, slack)

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Go on with the recurrence, token by token."""
        mixer = self.mixer
        decay = sigmoid(tape.arithmetic, mixer.a_raw.value)
        b, c, e = mixer.b.value, mixer.c.value, mixer.e.value
        inner = apply(tape, mixer.inner, x)
        states = list(self.states)
        mixed = np.empty(x.shape)
        for token in range(x.shape[0]):
            states.append((decay * states[-1]) + (b * inner[token]))
            mixed[token] = (c * states[-1]) + (e * inner[token])
        # the live state and those that a cut may return to
        kept = tuple(states[-(self.slack + 1) :])
        return apply(tape, mixer.output, mixed), replace(self, states=kept, length=self.length + x.shape[0])

    def earliest(self) -> int:
        """Return the length of the oldest state."""
        return self.length - len(self.states) + 1

    def truncated(self, length: int) -> LayerState:
        """Return to the state after `length` tokens."""
        kept = len(self.states) - (self.length - length)
        return replace(self, states=self.states[:kept], length=length)

    def copy(self) -> LayerState:
        """Copy every state."""
        return replace(self, states=tuple(state.copy() for state in self.states))

    def accounting(self) -> Accounting:
        """Count d floats, however long the sequence."""
        width = self.states[-1].size
        return Accounting(width, width * (len(self.states) - 1), sum(state.size for state in self.states), "d")


def apply(tape: Tape, projection: Projection, rows: Array) -> Array:
    """Run a projection of the layer on raw rows [tokens, inputs]."""
    return projection(tape, tape.constant(rows)).value


def turn_heads(tape: Tape, rows: Array, heads: int, position: int, rope: Rope) -> Array:
    """Turn rows [tokens, heads · w] by their positions, head by head: [tokens, heads, w]."""
    split = rows.reshape(rows.shape[0], heads, -1)
    table = rotation(tape.arithmetic, position, rows.shape[0], split.shape[2], rope.base, rope.frequencies)
    return turn(split, table.cosines[:, None, :], table.sines[:, None, :], rope.layout)


def by_head(rows: Array, heads: int) -> Array:
    """Turn [tokens, heads · w] into [heads, tokens, w]."""
    return np.swapaxes(rows.reshape(rows.shape[0], heads, -1), 0, 1)


def account(stores: tuple[RowStore, ...], formula: str) -> Accounting:
    """Count the floats of row stores."""
    widths = [store.storage.shape[1] for store in stores]
    return Accounting(
        sum(width * store.visible for width, store in zip(widths, stores, strict=True)),
        sum(width * (store.held - store.visible) for width, store in zip(widths, stores, strict=True)),
        sum(store.storage.size for store in stores),
        formula,
    )
