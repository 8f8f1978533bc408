"""What the caches of phases 4, 6 and 8 hold, and those of the latent-attention demo.

Everything is a difference or a sum of array sizes of sessions; no formula of the publication is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from cai_conformance.published.figure import BAKE_OFF, DERIVED, LATENT_DEMO, Figure, percent
from cai_conformance.published.models import SMALL_VOCABULARY, Models
from cai_conformance.published.sessions import Cache, Stages
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.models.decoder_configuration import AttentionSpec, DecoderConfiguration, LatentSpec

TABLE: Final = {
    12: (6_144, 6_144, 0.0),
    24: (12_288, 9_216, 25.0),
    48: (24_576, 15_360, 37.5),
    192: (98_304, 52_224, 46.9),
}
"""Phase 8: tokens; floats of two global layers, of a local and a global one; what that saves, in percent."""

FEW, MANY, MOST = 24, 48, 192
"""Numbers of tokens between which a cache is seen to grow: the window is full before the first."""


def cache_figures(models: Models) -> Iterator[Figure]:
    """Open sessions on the models, feed them, and measure."""
    all_global = Stages(models.of_phase(1), TABLE)
    yield from _latent(models, all_global)
    yield from _hybrid(models, all_global)
    yield from _local(models, all_global)
    yield from _interleaves(models)
    yield from _demo(models)


def _latent(models: Models, all_global: Stages) -> Iterator[Figure]:
    """Phase 4: keys and values of all heads, and the latent that they are made of."""
    attention = _grown(all_global, 0)
    heads = _grown(Stages(models.of_phase(4), (FEW, MANY)), 0)
    latent = _grown(Stages(models.of_phase(4), (FEW, MANY), LatentCache.LATENT), 0)
    two = [_grown(all_global, layer) for layer in (0, 1)]
    yield from _row("phase 4, plain attention, a token and layer", 256, 1_024, attention)
    yield from _row("phase 4, plain attention, a token, two layers", 512, 2_048, *two)
    yield from _row("phase 4, latent attention as executed", 384, 1_536, heads)
    yield Figure(DERIVED, "phase 4, latent attention without what stays zero", "floats", 320, heads.occupied)
    yield from _row("phase 4, latent and rotary key only", 40, 160, latent)
    share = percent(latent.floats, attention.floats)
    yield Figure(BAKE_OFF, "phase 4, latent only, of plain attention", "%", 15.6, share)
    times = round(attention.floats / latent.floats, 1)
    yield Figure(BAKE_OFF, "phase 4, latent only, smaller", "times", 6.4, times)


def _hybrid(models: Models, all_global: Stages) -> Iterator[Figure]:
    """Phase 6: two recurrences, whose state stays as large as it is, around a latent attention that grows."""
    session = Stages(models.of_phase(6), (1, FEW, MANY, MOST))
    latent = Stages(models.of_phase(6), (FEW, MANY), LatentCache.LATENT)
    for tokens in (1, MOST):
        first, _, last = session.layers(tokens)
        counted = f"{tokens} token{'s' if tokens > 1 else ''}"
        yield from _row(f"phase 6, states of both recurrences, {counted}", 256, 1_024, first, last)
    yield from _row("phase 6, latent attention as executed, a token", 384, 1_536, _grown(session, 1))
    yield from _row("phase 6, latent and rotary key only, a token", 40, 160, _grown(latent, 1))
    two = [_grown(all_global, layer) for layer in (0, 1)]
    yield from _row("phase 6, the transformer beside it, a token", 512, 2_048, *two)


def _local(models: Models, all_global: Stages) -> Iterator[Figure]:
    """Phase 8: a window in the first layer."""
    session = Stages(models.of_phase(8), TABLE)
    for tokens, (published_global, published_local, published_saved) in TABLE.items():
        whole, part = all_global.floats(tokens), session.floats(tokens)
        yield Figure(BAKE_OFF, f"phase 8, two global layers, {tokens} tokens", "floats", published_global, whole)
        yield Figure(BAKE_OFF, f"phase 8, local and global, {tokens} tokens", "floats", published_local, part)
        yield Figure(BAKE_OFF, f"phase 8, saved, {tokens} tokens", "%", published_saved, percent(whole - part, whole))
    local = session.layers(MOST)[0]
    yield from _row("phase 8, bound of the local layer", 3_072, 12_288, local)
    yield Figure(DERIVED, "phase 8, arrays of the local layer", "floats", 3_072, local.allocated)


def _interleaves(models: Models) -> Iterator[Figure]:
    """Phase 8: how much less a cache grows where one local layer, or five, stand before each global one."""
    for local, name, published in (("w", "1:1", Fraction(1, 2)), ("wwwww", "5:1", Fraction(5, 6))):
        mixers = local + "a"
        # The windows are full from FEW on, so that only global layers grow.
        part, whole = (Stages(models.of_mixers(letters), (FEW, MANY)) for letters in (mixers, "a" * len(mixers)))
        growth = [stages.floats(MANY) - stages.floats(FEW) for stages in (part, whole)]
        saved = (1 - Fraction(growth[0], growth[1])) * len(mixers)
        unit = f"of {len(mixers)} parts"
        yield Figure(
            BAKE_OFF,
            f"phase 8, growth that local to global {name} saves",
            unit,
            int(published * len(mixers)),
            int(saved) if saved.denominator == 1 else float(saved),
        )


def _demo(models: Models) -> Iterator[Figure]:
    """Width 24, four heads, latent 8, rotary key 4; without a rotary key means that it holds nothing."""
    plain, latent = (
        models.of(DecoderConfiguration(SMALL_VOCABULARY, MANY, 24, 4, 32, (spec,)))
        for spec in (AttentionSpec(), LatentSpec(8, 4))
    )
    unrotated = models.with_still_positions(latent.configuration)
    for name, published, model, kind in (
        ("keys and values", 48, plain, LatentCache.HEADS),
        ("latent attention as executed, no rotary key", 48, unrotated, LatentCache.HEADS),
        ("latent attention as executed", 80, latent, LatentCache.HEADS),
        ("latent only, no rotary key", 8, unrotated, LatentCache.LATENT),
        ("latent and rotary key only", 12, latent, LatentCache.LATENT),
    ):
        cache = _grown(Stages(model, (FEW, MANY), kind), 0)
        counted = cache.occupied if model is unrotated else cache.floats
        yield Figure(LATENT_DEMO, f"{name}, a token", "floats", published, counted)


def _grown(stages: Stages, layer: int) -> Cache:
    """Return by how much the cache of a layer grew for each token between FEW and MANY; -1 where not evenly."""
    before, after = stages.layers(FEW)[layer], stages.layers(MANY)[layer]
    return Cache(
        _each(after.floats - before.floats),
        _each(after.size_in_bytes - before.size_in_bytes),
        _each(after.occupied - before.occupied),
        _each(after.allocated - before.allocated),
    )


def _each(growth: int) -> int:
    each, rest = divmod(growth, MANY - FEW)
    return -1 if rest else each


def _row(name: str, floats: int, size_in_bytes: int, *counted: Cache) -> Iterator[Figure]:
    yield Figure(BAKE_OFF, name, "floats", floats, sum(cache.floats for cache in counted))
    yield Figure(BAKE_OFF, name, "bytes", size_in_bytes, sum(cache.size_in_bytes for cache in counted))
