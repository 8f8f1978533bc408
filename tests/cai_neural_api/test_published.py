"""Published figures: all equal on real models, and different where a model, a cache or an account is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cai_conformance.errors import ConformanceError
from cai_conformance.fixtures.sizes import PUBLISHED_SIZES
from cai_neural_api.published import (
    BAKE_OFF,
    LATENT_DEMO,
    Cache,
    Figure,
    Models,
    StageCounts,
    cache_figures,
    caches,
    percent,
    published_figures,
)
from cai_reference.arithmetic.instances import FAST
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.layer_states import AttentionState
from cai_reference.decoding.session import Session
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec, SsmSpec
from support_refusals import refuses

WIDTH, HEADS = 8, 2


@pytest.fixture(scope="module")
def figures() -> tuple[Figure, ...]:
    """All of them, counted once."""
    return published_figures()


def model_of(*mixers: MixerSpec) -> DecoderConfiguration:
    """Return a small configuration."""
    return DecoderConfiguration(8, 16, WIDTH, HEADS, 4, mixers)


def test_every_figure_is_as_published(figures: tuple[Figure, ...]) -> None:
    """No difference, and no figure under two names."""
    assert () == tuple(figure for figure in figures if not figure.equal)
    assert len(figures) == len({(figure.source, figure.name, figure.unit) for figure in figures})


def test_the_published_weights(figures: tuple[Figure, ...]) -> None:
    """Written down here a second time, in the order of the phases, the draft after its target."""
    totals = [
        *(1_309_700, 2_077_700, 1_245_188, 1_287_172, 1_309_700, 976_448),
        *(1_496_582, 541_574, 1_309_700, 1_309_186, 514),
    ]
    assert totals == [figure.counted for figure in figures if figure.unit == "weights"]
    assert [36.2, 2.76] == [f.counted for f in figures if f.name.startswith("phase 7") and f.source == BAKE_OFF][1:]


def test_the_published_table_of_windows(figures: tuple[Figure, ...]) -> None:
    """At 12, 24, 48 and 192 tokens: two global layers, a local and a global one, what is saved."""
    rows = [f.counted for f in figures if f.name.startswith("phase 8") and f.name.endswith(" tokens")]
    expected = [*(6_144, 6_144, 0.0), *(12_288, 9_216, 25.0), *(24_576, 15_360, 37.5), *(98_304, 52_224, 46.9)]
    assert expected == rows


def test_the_published_demo(figures: tuple[Figure, ...]) -> None:
    """Floats a token."""
    assert [48, 48, 80, 8, 12] == [figure.counted for figure in figures if figure.source == LATENT_DEMO]


@pytest.mark.exhaustive
def test_another_window_is_seen_where_a_window_counts() -> None:
    """11 tokens instead of 12; feed-forward layers of another width change no cache."""
    figures = tuple(cache_figures(Models(replace(PUBLISHED_SIZES, window=11, feed_forward=1))))
    counted = {f"{figure.name} ({figure.unit})": figure.counted for figure in figures if not figure.equal}
    # A row less is 2 · 128 floats less; 256 / 6144, 3328 / 12288, 9472 / 24576 and 46336 / 98304 are saved.
    expected = {
        "phase 8, local and global, 12 tokens (floats)": 5_888,
        "phase 8, saved, 12 tokens (%)": 4.2,
        "phase 8, local and global, 24 tokens (floats)": 8_960,
        "phase 8, saved, 24 tokens (%)": 27.1,
        "phase 8, local and global, 48 tokens (floats)": 15_104,
        "phase 8, saved, 48 tokens (%)": 38.5,
        "phase 8, local and global, 192 tokens (floats)": 51_968,
        "phase 8, saved, 192 tokens (%)": 47.1,
        "phase 8, bound of the local layer (floats)": 2_816,
        "phase 8, bound of the local layer (bytes)": 11_264,
        "phase 8, arrays of the local layer (floats)": 2_816,
    }
    assert expected == counted


@pytest.mark.parametrize(
    ("mixer", "latent", "expected"),
    [
        (AttentionSpec(), LatentCache.HEADS, Cache(80, 320, 80, 160)),
        (AttentionSpec(3), LatentCache.HEADS, Cache(48, 192, 48, 48)),
        (LatentSpec(3, 2), LatentCache.HEADS, Cache(120, 480, 100, 240)),
        (LatentSpec(3, 2), LatentCache.LATENT, Cache(25, 100, 25, 50)),
        (SsmSpec(), LatentCache.HEADS, Cache(8, 32, 8, 8)),
    ],
)
def test_caches_measured_by_hand(mixer: MixerSpec, latent: LatentCache, expected: Cache) -> None:
    """Five tokens of ten, width 8, two heads; each head's value has two zeros behind it in latent attention."""
    stages = StageCounts(Models().of(model_of(mixer)), (5, 10), latent)
    assert (expected,) == stages.layers(5)
    assert expected.floats == stages.floats(5)


def test_a_rotary_key_of_zeros_occupies_nothing() -> None:
    """The columns are there, and empty."""
    model = Models().with_still_positions(model_of(LatentSpec(3, 2)))
    heads, latent = (StageCounts(model, (5,), kind).layers(5)[0] for kind in (LatentCache.HEADS, LatentCache.LATENT))
    assert (120, 80) == (heads.floats, heads.occupied)
    assert (25, 15) == (latent.floats, latent.occupied)


@pytest.mark.parametrize(("field", "accounted", "held"), [("floats", 33, 32), ("allocated", 257, 256)])
def test_an_account_that_is_not_what_is_held(
    monkeypatch: pytest.MonkeyPatch, field: str, accounted: int, held: int
) -> None:
    """Layer, tokens and both numbers are told; the exit code is that of a wrong value."""
    session = Session(Models().of(model_of(SsmSpec(), AttentionSpec())), FAST)
    session.feed([1, 2])
    honest = AttentionState.accounting
    changes: dict[str, Any] = {field: accounted}
    monkeypatch.setattr(AttentionState, "accounting", lambda state: replace(honest(state), **changes))
    with refuses(ConformanceError, "cache-miscounted") as caught:
        caches(session)
    error = caught.value
    assert {"layer": 1, "tokens": 2, "accounted": accounted, "held": held} == error.fields
    assert error.exit_code == 1


def test_models_are_made_once() -> None:
    """The target of phase 5 is the model of phase 1."""
    models = Models(replace(PUBLISHED_SIZES, width=16, heads=2, feed_forward=1))
    assert models.of_phase(1) is models.of_phase(5)
    assert models.of_phase(1) is not models.of_phase(8)


def test_shares_have_one_decimal() -> None:
    """As published."""
    assert (36.2, 15.6, 46.9) == (percent(541_574, 1_496_582), percent(40, 256), percent(46_080, 98_304))
