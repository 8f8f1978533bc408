"""The cache tables of phases 4, 6 and 8, measured on sessions that were fed.

Keys and values are counted at the length at which they are of use, as published: a local layer counts its window,
although the library keeps every row of it. (CAI NEURAL API, decode-features bake-off.)
"""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.decoder.plan import Sizes
from cai_conformance.bakeoff.figures import CACHES, FigureList
from cai_conformance.bakeoff.phases import Memory
from cai_conformance.published.models import Models
from cai_conformance.published.sessions import Stages
from cai_reference.decoding.latent_states import LatentCache

TOKENS: Final = (12, 24, 48, 192)
"""The lengths of phase 8's table."""
FEW, MANY = 24, 48
"""Lengths between which a cache that grows is seen to grow."""
BYTES: Final = 4
"""A float of the library."""


def memory_figures(figures: FigureList, memory: Memory, sizes: Sizes) -> None:
    """Measure a table.

    Raises:
        CacheMiscounted: a cache accounts for something else than its arrays hold.
    """
    if memory is Memory.LATENT:
        _latent(figures, Models(sizes))
    elif memory is Memory.HYBRID:
        _hybrid(figures, Models(sizes))
    elif memory is Memory.LOCAL:
        _local(figures, Models(sizes))


def _latent(figures: FigureList, models: Models) -> None:
    """Phase 4: what a token costs a layer, as keys and values of all heads and as the latent that they are made of."""
    plain = _growth(_stages(models, 1), 0)
    latent = _growth(_stages(models, 4, LatentCache.LATENT), 0)
    for name, floats in (
        ("plain attention", plain),
        ("latent attention as executed", _growth(_stages(models, 4), 0)),
        ("latent and rotary key only", latent),
    ):
        _floats(figures, name, "a token and layer", floats)
    figures.add(CACHES, "latent only, of plain attention", "%", 100.0 * latent / plain, 1)
    figures.add(CACHES, "latent only, smaller", "times", plain / latent, 1)


def _hybrid(figures: FigureList, models: Models) -> None:
    """Phase 6: two states that stay as large as they are, and a latent attention that grows."""
    session = _stages(models, 6)
    first, _, last = session.layers(MANY)
    _floats(figures, "states of both recurrences", "in all", first.floats + last.floats)
    _floats(figures, "latent attention as executed", "a token", _growth(session, 1))
    _floats(figures, "latent and rotary key only", "a token", _growth(_stages(models, 6, LatentCache.LATENT), 1))
    plain = _stages(models, 1)
    _floats(figures, "the transformer of phase 1", "a token", _growth(plain, 0) + _growth(plain, 1))


def _local(figures: FigureList, models: Models) -> None:
    """Phase 8: a local layer beside a global one, and two global ones."""
    whole, part = (Stages(models.of_phase(number), TOKENS) for number in (1, 8))
    for tokens in TOKENS:
        every, some = whole.floats(tokens), part.floats(tokens)
        figures.add(CACHES, f"two global layers, {tokens} tokens", "floats", every)
        figures.add(CACHES, f"local and global, {tokens} tokens", "floats", some)
        figures.add(CACHES, f"saved, {tokens} tokens", "%", 100.0 * (every - some) / every, 1)
    bound = part.layers(TOKENS[-1])[0].floats
    figures.add(CACHES, "bound of the local layer", "floats", bound)
    figures.add(CACHES, "bound of the local layer, bytes", "bytes", BYTES * bound)


def _stages(models: Models, number: int, latent: LatentCache = LatentCache.HEADS) -> Stages:
    return Stages(models.of_phase(number), (FEW, MANY), latent)


def _growth(stages: Stages, layer: int) -> float:
    """Return by how many floats a layer's cache grows with a token."""
    return (stages.layers(MANY)[layer].floats - stages.layers(FEW)[layer].floats) / (MANY - FEW)


def _floats(figures: FigureList, name: str, each: str, floats: float) -> None:
    figures.add(CACHES, f"{name}, {each}", "floats", floats)
    figures.add(CACHES, f"{name}, bytes", "bytes", BYTES * floats)
