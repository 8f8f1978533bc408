"""How far a session can be cut back: exactly as far as its rings and states reach, and no further."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.layer_states import LayerState, RowStore
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.decoder import AttentionSpec, Decoder, LatentSpec, SsmSpec
from cai_reference.splitmix import SplitMix64
from support_decoder_models import PLAIN
from support_sessions import fed, future, lone, refuses

NAMES = ["attention", "local", "ssm", "latent", "hybrid", "grouped", "parallel-hybrid"]


def legal_lengths(session: Session) -> list[int]:
    """Return every length to which the session lets itself be cut."""
    snapshot, legal = session.snapshot(), []
    for length in range(session.length + 1):
        try:
            session.truncate(length)
            legal.append(length)
        except SessionError as error:
            if error.code != "truncation-refused":
                raise
        session.restore(snapshot)
    return legal


@pytest.mark.parametrize("slack", [0, 1, 4])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_ring_goes_back_as_far_as_its_rows(window: int, slack: int) -> None:
    """Legal iff nothing was dropped or n ≥ base + W − 1, with `base` the newest dropped row + 1; counted by hand."""
    session = lone(AttentionSpec(window), slack)
    for length in range(1, 13):
        session.feed([length])
        dropped = max(0, length - (window + slack))
        first = 0 if dropped == 0 else dropped + window - 1
        assert list(range(first, length + 1)) == legal_lengths(session)
        assert first == session.earliest()


@pytest.mark.parametrize("slack", [0, 1, 4])
def test_a_recurrence_goes_back_as_far_as_its_states(slack: int) -> None:
    """The states after the last S + 1 lengths."""
    session = lone(SsmSpec(), slack)
    for length in range(1, 9):
        session.feed([length])
        assert list(range(max(0, length - slack), length + 1)) == legal_lengths(session)


@pytest.mark.parametrize("mixer", [AttentionSpec(), LatentSpec(3, 4)])
def test_what_keeps_every_row_goes_back_to_the_start(mixer: AttentionSpec | LatentSpec) -> None:
    """Without slack too."""
    session = lone(mixer, 0)
    session.feed(list(range(1, 10)))
    assert list(range(10)) == legal_lengths(session)


def test_dropped_rows_stay_dropped() -> None:
    """A cut does not bring rows back: W 3, S 2 and nine tokens leave rows 4 to 8, so 6 is the end of it."""
    session = lone(AttentionSpec(3), 2)
    session.feed(list(range(1, 10)))
    session.truncate(6)
    refuses(session, SessionError("truncation-refused", layer=0, requested=5, earliest=6), lambda: session.truncate(5))
    session.feed([1])
    session.truncate(6)
    refuses(session, SessionError("truncation-refused", layer=0, requested=5, earliest=6), lambda: session.truncate(5))
    session.feed([1, 2, 3])
    refuses(session, SessionError("truncation-refused", layer=0, requested=5, earliest=6), lambda: session.truncate(5))
    session.feed([4])
    refuses(session, SessionError("truncation-refused", layer=0, requested=6, earliest=7), lambda: session.truncate(6))


def test_a_ring_as_large_as_the_capacity_drops_nothing() -> None:
    """Where window and slack exceed the capacity, every length is legal."""
    session = lone(AttentionSpec(5), 4, capacity=6)
    session.feed([1, 2, 3, 4, 5, 6])
    assert list(range(7)) == legal_lengths(session)


@pytest.mark.parametrize("name", ["local", "ssm", "hybrid", "grouped"])
def test_a_refused_cut_names_the_layer(name: str) -> None:
    """The first layer that cannot follow, and how far it can; no layer is cut."""
    session = fed(name, slack=1)
    refuses(
        session,
        SessionError("truncation-refused", layer=0, requested=4, earliest=7 if name == "local" else 8),
        lambda: session.truncate(4),
    )


def test_a_later_layer_that_refuses_leaves_the_earlier_ones_alone() -> None:
    """A global layer could follow, the window behind it cannot."""
    model = Decoder.initialize(replace(PLAIN, mixers=(AttentionSpec(), AttentionSpec(2))), SplitMix64(4))
    session = Session(model, STRICT, SessionOptions(slack=1))
    session.feed([1, 2, 3, 4, 5, 6])
    refuses(session, SessionError("truncation-refused", layer=1, requested=3, earliest=4), lambda: session.truncate(3))


# Rows that were cut off or never written.


@pytest.mark.parametrize("latent", LatentCache)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("local", "hybrid") else pytest.mark.exhaustive) for name in NAMES]
)
def test_rows_behind_the_length_do_not_matter(name: str, latent: LatentCache) -> None:
    """Every place that holds no live row is filled with NaN; what follows has the same bits."""
    session = fed(name, slack=3, latent=latent, capacity=14)
    session.truncate(7)
    before = future(session)
    snapshot = session.snapshot()
    poisoned = sum(poison(store) for state in snapshot.states for store in row_stores(state))
    assert (poisoned > 0) == (name != "ssm")
    session.restore(snapshot)
    assert before == future(session)


def row_stores(state: LayerState) -> list[RowStore]:
    """Return the stores of a layer; a recurrence has none."""
    return [value for value in vars(state).values() if isinstance(value, RowStore)]


def poison(store: RowStore) -> int:
    """Fill the places without a live row with NaN, and return how many there are."""
    places = store.storage.shape[0]
    dead = sorted(set(range(places)) - {position % places for position in range(store.base, store.length)})
    store.storage[dead] = np.nan
    return len(dead)
