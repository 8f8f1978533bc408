"""Three caches for multi-head latent attention, from the largest to the smallest work a token.

| cache    | holds, a token                                   | recomputes                                |
|----------|--------------------------------------------------|-------------------------------------------|
| heads    | every head's key [K_h, R] and value [V_h, zeros] | nothing                                   |
| latent   | the latent C and the shared rotated key R        | K and V of every visible token, same bits |
| absorbed | the same                                         | nothing: the query and the output absorb W_K and W_V |

Folding regroups sums, so the absorbed logits agree to rounding and not bit by bit. The zeros behind V_h make all rows
of the heads cache equally wide, as in CAI NEURAL API; without them it would hold H·(2w + r) floats a token instead of
2·H·(w + r).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape
from cai_reference.decoding.attend import attend_one, weights_of
from cai_reference.decoding.layer_states import Accounting, LayerState, RowStore, account, apply, by_head, turn_heads
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.rope import Rope


class LatentCache(StrEnum):
    """Which of the three caches a session keeps."""

    HEADS = "heads"
    LATENT = "latent"
    ABSORBED = "absorbed"


@dataclass(frozen=True)
class Projected:
    """What a few new tokens bring: queries [tokens, heads, w + r], latents [tokens, L], rotated keys [tokens, r]."""

    query: Array
    latent: Array
    rope_key: Array


def projected(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
    """Project and rotate new rows [tokens, width], the first at `position`."""
    rope = Rope(mixer.rope_base)
    content = apply(tape, mixer.query, x).reshape(x.shape[0], mixer.heads, -1)
    rotated = turn_heads(tape, apply(tape, mixer.rope_query, x), mixer.heads, position, rope)
    rope_key = turn_heads(tape, apply(tape, mixer.rope_key, x), 1, position, rope)[:, 0, :]
    return Projected(np.concatenate([content, rotated], axis=2), apply(tape, mixer.latent, x), rope_key)


@dataclass(frozen=True)
class HeadsState:
    """Keys and values of every head."""

    mixer: LatentAttention
    keys: RowStore
    values: RowStore

    @classmethod
    def empty(cls, mixer: LatentAttention, width: int, capacity: int) -> HeadsState:
        """Allocate for `capacity` tokens."""
        row = width + mixer.heads * mixer.rope_width
        return cls(mixer, *(RowStore.empty(row, capacity, None, 0) for _ in range(2)))

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Make keys and values of the new tokens, attend to all."""
        new = projected(tape, self.mixer, x, position)
        heads, content = self.mixer.heads, x.shape[1] // self.mixer.heads
        key = apply(tape, self.mixer.key, new.latent).reshape(-1, heads, content)
        value = apply(tape, self.mixer.value, new.latent).reshape(-1, heads, content)
        factor = 1.0 / math.sqrt(new.query.shape[2])
        keys, values = self.keys.writable(), self.values.writable()
        mixed = np.empty(x.shape)
        for token in range(x.shape[0]):
            shared = np.broadcast_to(new.rope_key[token], (heads, self.mixer.rope_width))
            keys = keys.append(np.concatenate([key[token], shared], axis=1).ravel())
            # padded with zeros, so that keys and values are rows of one width
            values = values.append(np.concatenate([value[token], np.zeros(shared.shape)], axis=1).ravel())
            seen, held = by_head(keys.rows(), heads), by_head(values.rows(), heads)
            mixture = attend_one(tape.arithmetic, new.query[token], seen, held, factor)
            mixed[token] = mixture[:, :content].ravel()
        return apply(tape, self.mixer.output, mixed), replace(self, keys=keys, values=values)

    def earliest(self) -> int:
        """Every row stays."""
        return 0

    def truncated(self, length: int) -> LayerState:
        """Forget the rows behind `length`."""
        return replace(self, keys=self.keys.truncated(length), values=self.values.truncated(length))

    def copy(self) -> LayerState:
        """Copy both stores."""
        return replace(self, keys=self.keys.copy(), values=self.values.copy())

    def accounting(self) -> Accounting:
        """Count two rows of H·(w + r) a token."""
        return account((self.keys, self.values), "2*H*(w+r)*t")


@dataclass(frozen=True)
class LatentState:
    """Latents and rotated keys; `absorbed` decides how they are used."""

    mixer: LatentAttention
    latents: RowStore
    rope_keys: RowStore
    absorbed: bool

    @classmethod
    def empty(cls, mixer: LatentAttention, capacity: int, *, absorbed: bool) -> LatentState:
        """Allocate for `capacity` tokens."""
        latent = mixer.latent.weight.shape[1]
        latents, rope_keys = (RowStore.empty(width, capacity, None, 0) for width in (latent, mixer.rope_width))
        return cls(mixer, latents, rope_keys, absorbed)

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Append a latent and a rotated key a token, attend through them."""
        new = projected(tape, self.mixer, x, position)
        latents, rope_keys = self.latents.writable(), self.rope_keys.writable()
        attend = self._attend_absorbed if self.absorbed else self._attend_recomputed
        mixed = np.empty(x.shape)
        for token in range(x.shape[0]):
            latents, rope_keys = latents.append(new.latent[token]), rope_keys.append(new.rope_key[token])
            mixed[token] = attend(tape, new.query[token], latents.rows(), rope_keys.rows())
        return apply(tape, self.mixer.output, mixed), replace(self, latents=latents, rope_keys=rope_keys)

    def _attend_recomputed(self, tape: Tape, query: Array, latents: Array, rope_keys: Array) -> Array:
        """Make every visible key and value again, as the heads cache made them."""
        heads = self.mixer.heads
        keys = by_head(apply(tape, self.mixer.key, latents), heads)
        values = by_head(apply(tape, self.mixer.value, latents), heads)
        shared = np.broadcast_to(rope_keys, (heads, *rope_keys.shape))
        factor = 1.0 / math.sqrt(query.shape[1])
        return attend_one(tape.arithmetic, query, np.concatenate([keys, shared], axis=2), values, factor).ravel()

    def _attend_absorbed(self, tape: Tape, query: Array, latents: Array, rope_keys: Array) -> Array:
        """Score latents directly: q·(c W + b) = (W q)·c + q·b; mix latents, then map the mixture once."""
        mixer, product = self.mixer, tape.arithmetic.matmul
        heads, content = mixer.heads, query.shape[1] - mixer.rope_width
        key_weight = np.swapaxes(mixer.key.weight.value.reshape(-1, heads, content), 0, 1)
        value_weight = np.swapaxes(mixer.value.weight.value.reshape(-1, heads, content), 0, 1)
        key_bias, value_bias = (part.bias.value.reshape(heads, content) for part in (mixer.key, mixer.value))
        plain, rotated = query[:, None, :content], query[:, None, content:]
        # q Wᵀ: the key matrix is folded into the query
        folded = product(plain, np.swapaxes(key_weight, 1, 2))
        scores = product(folded, latents.T)[:, 0, :] + product(plain, key_bias[:, :, None])[:, 0, :]
        # content, bias, position: added in this order
        scores = (scores + product(rotated, rope_keys.T)[:, 0, :]) * (1.0 / math.sqrt(query.shape[1]))
        # latents are mixed first, then mapped once
        mixture = product(weights_of(tape.arithmetic, scores), latents)
        mapped: Array = product(mixture[:, None, :], value_weight)[:, 0, :] + value_bias
        return mapped.ravel()

    def earliest(self) -> int:
        """Every row stays."""
        return 0

    def truncated(self, length: int) -> LayerState:
        """Forget the rows behind `length`."""
        return replace(self, latents=self.latents.truncated(length), rope_keys=self.rope_keys.truncated(length))

    def copy(self) -> LayerState:
        """Copy both stores."""
        return replace(self, latents=self.latents.copy(), rope_keys=self.rope_keys.copy())

    def accounting(self) -> Accounting:
        """Count L + r floats a token."""
        return account((self.latents, self.rope_keys), "(L+r)*t")
