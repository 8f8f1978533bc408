"""How many floats each cache holds: against the formulas, and against the sizes of the arrays themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.layer_states import Accounting, LayerState, RowStore
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.decoder import AttentionSpec, Decoder, LatentSpec, MixerSpec, SsmSpec
from cai_reference.splitmix import SplitMix64
from support_decoder_models import CONFIGURATIONS, PLAIN, sequence, small
from support_sessions import lone

HEADS, WIDTH, LATENT, ROPE = PLAIN.heads, PLAIN.width, 3, 4
CAPACITY = 20


def expected_floats(formula: str, tokens: int, window: int = 0) -> int:
    """Return what a formula gives; the head width w is d / H."""
    return {
        "2*d*t": 2 * WIDTH * tokens,
        "2*d*min(t,W)": 2 * WIDTH * min(tokens, window),
        "2*H*(w+r)*t": 2 * HEADS * (WIDTH // HEADS + ROPE) * tokens,
        "(L+r)*t": (LATENT + ROPE) * tokens,
        "d": WIDTH,
    }[formula]


CASES: list[tuple[MixerSpec, LatentCache, str, int, int]] = [
    (AttentionSpec(), LatentCache.HEADS, "2*d*t", 0, 2 * WIDTH * CAPACITY),
    (AttentionSpec(1), LatentCache.HEADS, "2*d*min(t,W)", 1, 2 * WIDTH * 3),
    (AttentionSpec(4), LatentCache.HEADS, "2*d*min(t,W)", 4, 2 * WIDTH * 6),
    (AttentionSpec(19), LatentCache.HEADS, "2*d*min(t,W)", 19, 2 * WIDTH * CAPACITY),
    (LatentSpec(LATENT, ROPE), LatentCache.HEADS, "2*H*(w+r)*t", 0, 2 * (WIDTH + HEADS * ROPE) * CAPACITY),
    (LatentSpec(LATENT, ROPE), LatentCache.LATENT, "(L+r)*t", 0, (LATENT + ROPE) * CAPACITY),
    (LatentSpec(LATENT, ROPE), LatentCache.ABSORBED, "(L+r)*t", 0, (LATENT + ROPE) * CAPACITY),
]


@pytest.mark.parametrize(("mixer", "latent", "formula", "window", "allocated"), CASES)
def test_rows_are_counted_at_every_length(
    mixer: MixerSpec, latent: LatentCache, formula: str, window: int, allocated: int
) -> None:
    """Live floats by the formula, allocation from the start on; slack 2 keeps rows behind a window."""
    session = lone(mixer, 2, CAPACITY, latent)
    for tokens in range(CAPACITY + 1):
        (layer,) = session.accounting()
        behind = max(0, min(tokens, window + 2) - window) if window else 0
        expected = Accounting(expected_floats(formula, tokens, window), 2 * WIDTH * behind, allocated, formula)
        assert expected == layer
        if tokens < CAPACITY:
            session.feed([1 + tokens % 5])


@pytest.mark.parametrize("slack", [0, 1, 5])
def test_a_recurrence_is_as_large_as_its_width(slack: int) -> None:
    """One state is live, up to S older ones are kept; a state is allocated when there is one."""
    session = lone(SsmSpec(), slack, CAPACITY)
    for tokens in range(CAPACITY + 1):
        kept = min(tokens, slack)
        assert (Accounting(WIDTH, WIDTH * kept, WIDTH * (kept + 1), "d"),) == session.accounting()
        if tokens < CAPACITY:
            session.feed([1 + tokens % 5])


def sizes(state: LayerState) -> int:
    """Return the number of elements of every array that a state holds."""
    total = 0
    for value in vars(state).values():
        if isinstance(value, RowStore):
            total += value.storage.nbytes // 8
        elif isinstance(value, tuple):
            total += sum(array.nbytes // 8 for array in value if isinstance(array, np.ndarray))
    return total


@pytest.mark.parametrize("latent", LatentCache)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_allocated_is_what_the_arrays_hold(name: str, latent: LatentCache) -> None:
    """Found by looking into the states themselves, fresh, full, and cut."""
    session = Session(small(name), STRICT, SessionOptions(capacity=12, slack=2, latent=latent))
    ids = sequence(session.model.configuration.vocabulary, 12)
    for _ in range(3):
        layers = session.accounting()
        assert [sizes(state) for state in session.snapshot().states] == [layer.allocated for layer in layers]
        assert len(session.model.blocks) == len(layers)
        assert all(layer.floats + layer.slack <= layer.allocated for layer in layers)
        if session.length:
            session.truncate(session.earliest())
        else:
            session.feed(ids)


def test_a_cut_leaves_fewer_rows_than_the_window() -> None:
    """W 3, S 2: of nine tokens rows 4 to 8 are there; cut to 6, rows 4 and 5 are all that is left of a window of 3."""
    session = lone(AttentionSpec(3), 2)
    session.feed(list(range(1, 10)))
    assert (Accounting(48, 32, 80, "2*d*min(t,W)"),) == session.accounting()
    for length, floats, slack in ((8, 48, 16), (7, 48, 0), (6, 32, 0)):
        session.truncate(length)
        assert (Accounting(floats, slack, 80, "2*d*min(t,W)"),) == session.accounting()
    session.feed([1])
    assert (Accounting(48, 0, 80, "2*d*min(t,W)"),) == session.accounting()


def test_chunks_and_detours_are_counted_alike() -> None:
    """What is held depends on the length alone while nothing is cut."""
    one, other = lone(AttentionSpec(4), 2), lone(AttentionSpec(4), 2)
    for token in range(1, 10):
        one.feed([token])
    other.feed(list(range(1, 8)))
    other.feed([8, 9])
    assert one.accounting() == other.accounting()


# The published figures, in floats a token (CAI NEURAL API, decode-features bake-off).


def published(*mixers: MixerSpec, latent: LatentCache = LatentCache.HEADS, capacity: int = 192) -> Session:
    """Open a session over blocks of the published width, with a small vocabulary and feed-forward layer."""
    sizes = replace(PLAIN, width=128, heads=8, feed_forward=1, mixers=mixers)
    return Session(Decoder.initialize(sizes, SplitMix64(0)), FAST, SessionOptions(capacity=capacity, latent=latent))


def floats_after(session: Session, tokens: int) -> int:
    """Return the live floats of all layers after so many tokens."""
    session.reset()
    session.feed([1] * tokens)
    return sum(layer.floats for layer in session.accounting())


def test_caches_of_one_layer_at_the_published_size() -> None:
    """256 floats a token for attention, 384 for latent heads, 40 for latents, 128 in all for a recurrence."""
    assert 256 == floats_after(published(AttentionSpec()), 1)
    assert 384 == floats_after(published(LatentSpec(32, 8)), 1)
    assert 40 == floats_after(published(LatentSpec(32, 8), latent=LatentCache.LATENT), 1)
    assert [128, 128] == [floats_after(published(SsmSpec()), tokens) for tokens in (1, 48)]


@pytest.mark.exhaustive
def test_a_window_at_the_published_size() -> None:
    """All global against one local layer: 6144 … 98304 and 6144 … 52224; the local one stops at 3072."""
    table = {12: (6144, 6144), 24: (12288, 9216), 48: (24576, 15360), 192: (98304, 52224)}
    every, mixed = published(AttentionSpec(), AttentionSpec()), published(AttentionSpec(12), AttentionSpec())
    for tokens, expected in table.items():
        assert expected == (floats_after(every, tokens), floats_after(mixed, tokens))
    assert [3072, 3072] == [mixed.accounting()[0].floats, mixed.accounting()[0].allocated]


def test_the_latent_cache_of_the_demonstration() -> None:
    """Width 24, 4 heads, L 8, r 4: 80 floats a token by heads, 12 by latents."""
    sizes = replace(PLAIN, width=24, heads=4, mixers=(LatentSpec(8, 4),))
    model = Decoder.initialize(sizes, SplitMix64(1))
    for latent, expected in ((LatentCache.HEADS, 80), (LatentCache.LATENT, 12), (LatentCache.ABSORBED, 12)):
        session = Session(model, FAST, SessionOptions(latent=latent))
        session.feed([3])
        assert expected == session.accounting()[0].floats
