"""What the caches of a model hold after so many tokens: read from the arrays of a session that was really fed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cai_conformance.published.errors import CacheMiscounted
from cai_reference.arithmetic import FAST, Array
from cai_reference.decoding.latent_states import HeadsState, LatentCache, LatentState
from cai_reference.decoding.layer_states import AttentionState, LayerState, SsmState
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.decoder import Decoder


@dataclass(frozen=True)
class Cache:
    """One layer's cache.

    Attributes:
        floats: what it holds for the tokens that are still of use.
        size_in_bytes: the same in the 4-byte floats that were published.
        occupied: how many of the floats are not in a column of zeros.
        allocated: all elements of its arrays.
    """

    floats: int
    size_in_bytes: int
    occupied: int
    allocated: int


class Stages:
    """The caches of a model after each of several numbers of tokens, which ascend."""

    def __init__(self, model: Decoder, tokens: Iterable[int], latent: LatentCache = LatentCache.HEADS) -> None:
        wanted = tuple(tokens)
        session = Session(model, FAST, SessionOptions(capacity=wanted[-1], latent=latent))
        self._caches: dict[int, tuple[Cache, ...]] = {}
        for count in wanted:
            # Id 0 embeds to zero, so it is not among them.
            session.feed([1 + place % 5 for place in range(session.length, count)])
            self._caches[count] = caches(session)

    def layers(self, tokens: int) -> tuple[Cache, ...]:
        """Return the cache of each layer after so many tokens."""
        return self._caches[tokens]

    def floats(self, tokens: int) -> int:
        """Return the floats of all layers after so many tokens."""
        return sum(cache.floats for cache in self._caches[tokens])


def caches(session: Session) -> tuple[Cache, ...]:
    """Measure the arrays of every layer.

    Raises:
        CacheMiscounted: a layer's account says otherwise.
    """
    found = []
    for layer, (state, account) in enumerate(zip(session.snapshot().states, session.accounting(), strict=True)):
        cache = _measured(state)
        for accounted, held in ((account.floats, cache.floats), (account.allocated, cache.allocated)):
            if accounted != held:
                raise CacheMiscounted(layer, session.length, accounted, held)
        found.append(cache)
    return tuple(found)


def _measured(state: LayerState) -> Cache:
    live, storage = _arrays(state)
    return Cache(
        sum(array.size for array in live),
        sum(array.astype(np.float32).nbytes for array in live),
        sum(array.shape[0] * int(np.count_nonzero(array.any(axis=0))) for array in live),
        sum(array.size for array in storage),
    )


def _arrays(state: LayerState) -> tuple[list[Array], list[Array]]:
    """Return what is live, as rows, and all arrays."""
    if isinstance(state, SsmState):
        return [state.states[-1][None, :]], list(state.states)
    if isinstance(state, LatentState):
        stores = [state.latents, state.rope_keys]
    elif isinstance(state, AttentionState | HeadsState):
        stores = [state.keys, state.values]
    else:
        raise TypeError(f"{type(state).__name__} is no cache that could be measured")
    return [store.rows() for store in stores], [store.storage for store in stores]
