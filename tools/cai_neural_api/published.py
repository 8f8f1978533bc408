"""Every published figure of the decode-features bake-off that needs no clock, beside what is counted here.

The models are made at the published size, sessions on them are opened and fed, and the arrays are measured. Speeds,
losses and texts of the publication are not looked at.

One published figure beside what was counted.

The models of the nine phases at their published size, each made once.

Only shapes are of interest, so nothing is drawn: every matrix is constant, and not zero, so that an array element that
stays zero is one that holds nothing.

How many weights the published models have: totals of the phases, and what phases 7 and 9 save.

The published totals leave out biases; how many there are follows from the published layers.

What the caches of phases 4, 6 and 8 hold, and those of the latent-attention demo.

Everything is a difference or a sum of array sizes of sessions; no formula of the publication is used.

What the caches of a model hold after so many tokens: read from the arrays of a session that was really fed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.fixtures.decoder_phases import PHASES
from cai_conformance.fixtures.sizes import PUBLISHED_SIZES, Sizes
from cai_neural_api.errors import PublishedError
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Parameter
from cai_reference.decoding.latent_states import HeadsState, LatentCache, LatentState
from cai_reference.decoding.layer_states import AttentionState, LayerState, SsmState
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.decoder import AttentionSpec, Decoder, DecoderConfiguration, LatentSpec
from cai_reference.models.registry import parameter_count, weight_count
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64


def published_figures() -> tuple[Figure, ...]:
    """Count everything, source by source, weights before caches.

    Raises:
        PublishedError (cache-miscounted): a cache accounts for something else than its arrays hold.
    """
    models = Models()
    figures = (*weight_figures(models), *cache_figures(models))
    return tuple(sorted(figures, key=lambda figure: SOURCES.index(figure.source)))


Number: TypeAlias = int | float

BAKE_OFF: Final = "CAI NEURAL API, decode-features bake-off"
LATENT_DEMO: Final = "CAI NEURAL API, latent-attention demo"
DERIVED: Final = "follows from the published layers"
"""A figure that is not printed there, but that the layers described there fix."""
SOURCES: Final = (BAKE_OFF, LATENT_DEMO, DERIVED)


@dataclass(frozen=True)
class Figure:
    """A figure without a clock in it.

    Attributes:
        source: where it was published, or DERIVED.
        name: what it is of.
        unit: what is counted.
        published: as published.
        counted: on objects made here, rounded to as many decimals.
    """

    source: str
    name: str
    unit: str
    published: Number
    counted: Number

    @property
    def equal(self) -> bool:
        """Whether this implementation has the published figure."""
        return self.published == self.counted


def percent(part: int, whole: int) -> float:
    """Return a share in percent, to one decimal as published."""
    return round(100.0 * part / whole, 1)


VOCABULARY: Final = 3000
SMALL_VOCABULARY: Final = 8
"""For models of no phase, of which only the caches are counted: none depends on it, nor on the feed-forward layers."""


class Constant(SplitMix64):
    """A generator that costs nothing: every draw is the same."""

    def next_units(self, count: int) -> Array:
        """Return ¾ so many times, so that a matrix is half its limit everywhere."""
        return np.full(count, 0.75)


class Models:
    """Models by phase, 1 to 9, and by configuration."""

    def __init__(self, sizes: Sizes = PUBLISHED_SIZES) -> None:
        self.sizes = sizes
        self._made: dict[DecoderConfiguration, Decoder] = {}

    def of_phase(self, number: int) -> Decoder:
        """Return the decoder of a phase."""
        return self.of(PHASES[number - 1].decoder(self.sizes, VOCABULARY))

    def of_mixers(self, mixers: str) -> Decoder:
        """Return a decoder that is no phase: a letter a block, as in the phases, and nothing else of any size."""
        sizes = replace(self.sizes, feed_forward=1)
        return self.of(replace(PHASES[0], mixers=mixers).decoder(sizes, SMALL_VOCABULARY))

    def of(self, configuration: DecoderConfiguration) -> Decoder:
        """Return the decoder of a configuration."""
        if configuration not in self._made:
            self._made[configuration] = Decoder.initialize(configuration, Constant(0))
        return self._made[configuration]

    def with_still_positions(self, configuration: DecoderConfiguration) -> Decoder:
        """Return a decoder of its own whose rotary keys are zero, as where there are none."""
        model = Decoder.initialize(configuration, Constant(0))
        for parameter in model.parameters:
            if ".rope_key." in parameter.name:
                parameter.assign(np.zeros(parameter.shape))
        return model

    def draft(self) -> TokenShiftDraft:
        """Return the draft of phase 5."""
        return TokenShiftDraft.initialize(PHASES[4].draft_model(self.sizes, VOCABULARY), Constant(0))


PHASE_WEIGHTS: Final = {
    1: (1_309_700, 6_456),
    2: (2_077_700, 12_456),
    3: (1_245_188, 5_944),
    4: (1_287_172, 6_664),
    5: (1_309_700, 6_456),
    6: (1_496_582, 7_712),
    7: (541_574, 8_992),
    8: (1_309_700, 6_456),
    9: (1_309_186, 6_456),
}
DRAFT: Final = (976_448, 3_256)


def weight_figures(models: Models) -> Iterator[Figure]:
    """Count the weights and biases of every model, and compare dense with grouped, sequential with parallel."""
    counted: dict[int, int] = {}
    for phase, published in PHASE_WEIGHTS.items():
        parameters = models.of_phase(phase).parameters
        counted[phase] = weight_count(parameters)
        yield from _totals(f"phase {phase}, {'target' if phase == 5 else 'model'}", parameters, published)
        if phase == 5:
            yield from _totals("phase 5, draft", models.draft().parameters, DRAFT)
    grouped, dense = counted[7], counted[6]
    yield Figure(BAKE_OFF, "phase 7, of phase 6", "%", 36.2, percent(grouped, dense))
    yield Figure(BAKE_OFF, "phase 7, smaller than phase 6", "times", 2.76, round(dense / grouped, 2))
    yield Figure(BAKE_OFF, "phase 9, fewer than phase 1", "weights", 514, counted[1] - counted[9])


def _totals(name: str, parameters: Sequence[Parameter], published: tuple[int, int]) -> Iterator[Figure]:
    weights, biases = published
    counted = weight_count(parameters)
    yield Figure(BAKE_OFF, name, "weights", weights, counted)
    yield Figure(DERIVED, name, "biases", biases, parameter_count(parameters) - counted)


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
    all_global = StageCounts(models.of_phase(1), TABLE)
    yield from _latent(models, all_global)
    yield from _hybrid(models, all_global)
    yield from _local(models, all_global)
    yield from _interleaves(models)
    yield from _demo(models)


def _latent(models: Models, all_global: StageCounts) -> Iterator[Figure]:
    """Phase 4: keys and values of all heads, and the latent that they are made of."""
    attention = _grown(all_global, 0)
    heads = _grown(StageCounts(models.of_phase(4), (FEW, MANY)), 0)
    latent = _grown(StageCounts(models.of_phase(4), (FEW, MANY), LatentCache.LATENT), 0)
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


def _hybrid(models: Models, all_global: StageCounts) -> Iterator[Figure]:
    """Phase 6: two recurrences, whose state stays as large as it is, around a latent attention that grows."""
    session = StageCounts(models.of_phase(6), (1, FEW, MANY, MOST))
    latent = StageCounts(models.of_phase(6), (FEW, MANY), LatentCache.LATENT)
    for tokens in (1, MOST):
        first, _, last = session.layers(tokens)
        counted = f"{tokens} token{'s' if tokens > 1 else ''}"
        yield from _row(f"phase 6, states of both recurrences, {counted}", 256, 1_024, first, last)
    yield from _row("phase 6, latent attention as executed, a token", 384, 1_536, _grown(session, 1))
    yield from _row("phase 6, latent and rotary key only, a token", 40, 160, _grown(latent, 1))
    two = [_grown(all_global, layer) for layer in (0, 1)]
    yield from _row("phase 6, the transformer beside it, a token", 512, 2_048, *two)


def _local(models: Models, all_global: StageCounts) -> Iterator[Figure]:
    """Phase 8: a window in the first layer."""
    session = StageCounts(models.of_phase(8), TABLE)
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
        part, whole = (StageCounts(models.of_mixers(letters), (FEW, MANY)) for letters in (mixers, "a" * len(mixers)))
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
        cache = _grown(StageCounts(model, (FEW, MANY), kind), 0)
        counted = cache.occupied if model is unrotated else cache.floats
        yield Figure(LATENT_DEMO, f"{name}, a token", "floats", published, counted)


def _grown(stages: StageCounts, layer: int) -> Cache:
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


class StageCounts:
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
        PublishedError (cache-miscounted): a layer's account says otherwise.
    """
    found = []
    for layer, (state, account) in enumerate(zip(session.snapshot().states, session.accounting(), strict=True)):
        cache = _measured(state)
        for accounted, held in ((account.floats, cache.floats), (account.allocated, cache.allocated)):
            if accounted != held:
                raise PublishedError(
                    "cache-miscounted", layer=layer, tokens=session.length, accounted=accounted, held=held
                )
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
