"""Streaming against the batch path, bit for bit in strict/1, through any history of feeding, cutting and restoring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.decoder import Decoder
from support_decoder_models import CONFIGURATIONS, sequence, small
from support_refusals import refuses

NAMES = list(CONFIGURATIONS)
A_FEW = ["local", "hybrid", "parallel-hybrid", "futures", "grouped"]
LATENT_NAMES = ["latent", "hybrid", "parallel-hybrid", "grouped"]
TOKENS = 14


@cache
def model_of(name: str) -> Decoder:
    """Return the small model of this name, made once."""
    return small(name)


@cache
def truth(name: str, start: int = 0) -> tuple[tuple[int, ...], Array]:
    """Return ids and the batch path's logits [heads, tokens, vocabulary] for them."""
    model = model_of(name)
    ids = sequence(model.configuration.vocabulary, TOKENS)
    heads = model.forward(Tape(STRICT, recording=False), ids, 1, start)
    return tuple(ids), np.array([head.value[0] for head in heads])


def opened(name: str, start: int = 0, slack: int = 0, latent: LatentCache = LatentCache.HEADS) -> Session:
    """Open a strict session with room for the sequence and a detour."""
    return Session(model_of(name), STRICT, SessionOptions(start, TOKENS + 4, slack, latent))


def assert_rows(expected: Array, session: Session, ids: Sequence[int]) -> None:
    """Feed ids and require the bits of the expected rows behind the session's length."""
    before = session.length
    actual = np.array(session.feed(ids))
    assert expected[:, before : before + len(ids)].tobytes() == actual.tobytes()


@pytest.mark.parametrize("start", [3000, pytest.param(0, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", NAMES)
def test_one_token_at_a_time(name: str, start: int) -> None:
    """Every mixer, wiring and grouping, from two positions."""
    ids, rows = truth(name, start)
    session = opened(name, start)
    for token in ids:
        assert_rows(rows, session, [token])
    assert TOKENS == session.length


@pytest.mark.parametrize("cut", range(1, TOKENS))
def test_every_cut_in_two(cut: int) -> None:
    """Both halves of the sequence, however long, over a recurrence, a latent and a window."""
    ids, rows = truth("hybrid")
    session = opened("hybrid")
    assert_rows(rows, session, ids[:cut])
    assert_rows(rows, session, ids[cut:])


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), name=st.sampled_from(NAMES))
@settings(max_examples=20)
def test_any_chunks(sizes: list[int], name: str) -> None:
    """The sequence in pieces of any sizes gives the rows of the whole."""
    ids, rows = truth(name)
    session = opened(name)
    for size in sizes:
        chunk = ids[session.length : session.length + size]
        if chunk:
            assert_rows(rows, session, chunk)


Action = tuple[str, int]
KINDS_OF_ACTION = ["feed", "feed", "detour", "truncate", "snapshot", "restore", "reset"]
ACTIONS = st.tuples(st.sampled_from(KINDS_OF_ACTION), st.integers(1, 5))


def live(session: Session, ids: Sequence[int], rows: Array, actions: Sequence[Action], slack: int) -> None:
    """Do what is asked, and require the batch path's rows wherever the true sequence is fed."""
    snapshot = session.snapshot()
    for action, size in actions:
        match action:
            case "feed":
                if chunk := ids[session.length : session.length + size]:
                    assert_rows(rows, session, chunk)
            case "detour":
                length, count = session.length, min(size, slack)
                if count:
                    session.feed([(token + 1) % 11 for token in range(count)])
                    session.truncate(length)
            case "truncate":
                target = max(0, session.length - size)
                if target < session.earliest():
                    with refuses(SessionError, "truncation-refused"):
                        session.truncate(target)
                else:
                    session.truncate(target)
            case "snapshot":
                snapshot = session.snapshot()
            case "restore":
                session.restore(snapshot)
            case _:
                session.reset()
    if chunk := ids[session.length :]:
        assert_rows(rows, session, chunk)


@given(
    name=st.sampled_from(NAMES),
    slack=st.integers(0, 4),
    latent=st.sampled_from([LatentCache.HEADS, LatentCache.LATENT]),
    actions=st.lists(ACTIONS, max_size=10),
)
@example("local", 3, LatentCache.HEADS, [("feed", 5), ("feed", 5), ("detour", 3), ("truncate", 3), ("feed", 1)])
@example("grouped", 4, LatentCache.LATENT, [("feed", 5), ("snapshot", 1), ("feed", 5), ("restore", 1), ("detour", 4)])
@settings(max_examples=settings().max_examples // 2)
def test_any_history(name: str, slack: int, latent: LatentCache, actions: list[Action]) -> None:
    """Feed, wrong tokens taken back, cut, snapshot, restore, reset: what is remembered is the true sequence."""
    ids, rows = truth(name)
    live(opened(name, slack=slack, latent=latent), ids, rows, actions, slack)


@pytest.mark.parametrize("name", ["local", "hybrid", "grouped"])
def test_rings_wrap_and_still_go_back(name: str) -> None:
    """After each token of a long sequence, slack wrong tokens are fed and taken back, exactly."""
    ids, rows = truth(name)
    session = opened(name, slack=3)
    for token in ids:
        assert_rows(rows, session, [token])
        length = session.length
        session.feed([2, 7, 4])
        session.truncate(length)
    assert session.earliest() > 0


@pytest.mark.parametrize("name", A_FEW)
def test_a_cut_session_goes_on_like_a_fresh_one(name: str) -> None:
    """Cut to 6 of 9 tokens and fed with other ones, it has the bits of a session that saw only those."""
    ids, _ = truth(name)
    cut, fresh = opened(name, slack=3), opened(name)
    cut.feed(ids[:9])
    cut.truncate(6)
    fresh.feed(ids[:6])
    other = [4, 4, 9, 0, 2, 10]
    assert np.array(fresh.feed(other)).tobytes() == np.array(cut.feed(other)).tobytes()


@pytest.mark.parametrize("name", A_FEW)
def test_a_snapshot_restores_any_number_of_times(name: str) -> None:
    """Neither going on, nor cutting, nor restoring wears it out; restoring into a second session works too."""
    ids, rows = truth(name)
    session = opened(name, slack=1)
    session.feed(ids[:7])
    snapshot = session.snapshot()
    session.feed([3, 1, 4, 1])
    for target in (session, opened(name, slack=1)):
        for _ in range(2):
            target.restore(snapshot)
            assert 7 == target.length
            assert_rows(rows, target, ids[7:])


def test_reset_forgets_everything() -> None:
    """After another sequence, the rows are those of a fresh session."""
    for name in A_FEW:
        ids, rows = truth(name)
        session = opened(name)
        session.feed(ids[::-1])
        session.reset()
        assert 0 == session.length
        assert_rows(rows, session, ids)


def test_sessions_do_not_share() -> None:
    """Two sessions of one model, fed in turns, each give their own rows."""
    for name in ("hybrid", "grouped"):
        ids, rows = truth(name)
        one, other = opened(name), opened(name)
        for token in ids:
            assert_rows(rows, one, [token])
            other.feed([(token + 3) % 11])


def test_what_was_returned_stays() -> None:
    """Logits of an earlier feed are not overwritten by later ones."""
    ids, rows = truth("hybrid")
    session = opened("hybrid")
    first = session.feed(ids[:4])[0]
    session.feed(ids[4:])
    session.reset()
    session.feed([5, 5, 5, 5])
    assert rows[0, :4].tobytes() == first.tobytes()


@pytest.mark.parametrize("name", A_FEW)
def test_fast_streams_to_rounding(name: str) -> None:
    """Without promised bits, token by token and in one go agree within 1e-12 of the largest logit."""
    ids, rows = truth(name)
    session = Session(model_of(name), FAST)
    streamed = np.concatenate([np.array(session.feed([token])) for token in ids], axis=1)
    assert np.max(np.abs(rows - streamed)) <= 1e-12 * np.max(np.abs(rows))


# The three caches of latent attention.


@pytest.mark.parametrize("start", [0, 3000])
@pytest.mark.parametrize("name", LATENT_NAMES)
def test_the_latent_cache_has_the_bits_of_the_heads_cache(name: str, start: int) -> None:
    """Keys and values made again from latents are the same numbers."""
    ids, rows = truth(name, start)
    session = opened(name, start, latent=LatentCache.LATENT)
    for first in range(0, TOKENS, 3):
        assert_rows(rows, session, ids[first : first + 3])


@pytest.mark.parametrize("start", [0, 3000])
@pytest.mark.parametrize("name", LATENT_NAMES)
def test_the_absorbed_cache_agrees_to_rounding(name: str, start: int) -> None:
    """Logits within 1e-12, the same choice everywhere, and not the same bits."""
    ids, rows = truth(name, start)
    session = opened(name, start, latent=LatentCache.ABSORBED)
    absorbed = np.concatenate([np.array(session.feed(ids[first : first + 3])) for first in range(0, TOKENS, 3)], axis=1)
    assert np.max(np.abs(rows - absorbed)) <= 1e-12
    assert np.argmax(rows, axis=2).tolist() == np.argmax(absorbed, axis=2).tolist()
    assert rows.tobytes() != absorbed.tobytes()


@pytest.mark.parametrize("latent", LatentCache)
@pytest.mark.parametrize("name", LATENT_NAMES)
def test_every_latent_cache_goes_back_exactly(name: str, latent: LatentCache) -> None:
    """Cut and fed again, each has its own bits again."""
    ids, _ = truth(name)
    session = opened(name, slack=5, latent=latent)
    first = np.array(session.feed(ids))
    session.truncate(TOKENS - 5)
    assert first[:, -5:].tobytes() == np.array(session.feed(ids[-5:])).tobytes()
