"""Streaming Llama models against the batch path, bit for bit in strict/1, and what their caches hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.generation import Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.layer_states import Accounting, GroupedQueryState
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.speculation import ScriptedDraft, SelfDraft, speculate
from cai_reference.errors import AutogradError, CaiReferenceError, LayerError
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from support_decoder_models import sequence
from support_llama_models import CONFIGURATIONS, PLAIN, small, stirred
from support_refusals import refuses as raised_with
from support_sessions import refuses

NAMES = list(CONFIGURATIONS)
TOKENS = 10


@cache
def model_of(name: str) -> Llama:
    """Return a model; no test changes it."""
    return small(name)


@cache
def truth(name: str, start: int = 0) -> tuple[tuple[int, ...], Array]:
    """Return a sequence and the logits [tokens, vocabulary] of the batch path."""
    ids = sequence(13, TOKENS)
    (head,) = model_of(name).forward(Tape(STRICT, recording=False), ids, 1, start)
    return tuple(ids), head.value[0]


def opened(name: str, start: int = 0, slack: int = 0) -> Session:
    """Open a strict session with room for the sequence and a detour."""
    return Session(model_of(name), STRICT, SessionOptions(start, TOKENS + 4, slack))


def assert_rows(expected: Array, session: Session, ids: Sequence[int]) -> None:
    """Feed ids and require the bits of the expected rows behind the session's length."""
    before = session.length
    (actual,) = session.feed(ids)
    assert expected[before : before + len(ids)].tobytes() == actual.tobytes()


class TestBits:
    """However the tokens come in, the logits are those of the batch path."""

    @pytest.mark.parametrize("start", [3000, *(pytest.param(start, marks=pytest.mark.exhaustive) for start in (0, 5))])
    @pytest.mark.parametrize("name", NAMES)
    def test_one_token_at_a_time(self, name: str, start: int) -> None:
        """Shared keys, windows, layouts, norms and heads, from three positions."""
        ids, rows = truth(name, start)
        session = opened(name, start)
        for token in ids:
            assert_rows(rows, session, [token])

    @given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), name=st.sampled_from(NAMES))
    @settings(max_examples=8)
    def test_any_chunks(self, sizes: list[int], name: str) -> None:
        """The sequence in pieces of any sizes."""
        ids, rows = truth(name)
        session = opened(name)
        for size in sizes:
            if chunk := ids[session.length : session.length + size]:
                assert_rows(rows, session, chunk)

    @given(
        name=st.sampled_from(NAMES),
        slack=st.integers(0, 4),
        actions=st.lists(
            st.tuples(
                st.sampled_from(["feed", "feed", "detour", "truncate", "snapshot", "restore", "reset"]),
                st.integers(1, 5),
            ),
            max_size=10,
        ),
    )
    @example("window", 3, [("feed", 5), ("feed", 5), ("detour", 3), ("truncate", 3), ("feed", 1)])
    @example("adjacent", 4, [("feed", 5), ("snapshot", 1), ("feed", 5), ("restore", 1), ("detour", 4)])
    @settings(max_examples=10)
    def test_any_history(self, name: str, slack: int, actions: list[tuple[str, int]]) -> None:
        """Wrong tokens taken back, cuts, snapshots: what is remembered is the true sequence."""
        ids, rows = truth(name)
        session = opened(name, slack=slack)
        snapshot = session.snapshot()
        for action, size in actions:
            length = session.length
            match action:
                case "feed":
                    if chunk := ids[length : length + size]:
                        assert_rows(rows, session, chunk)
                case "detour":
                    if count := min(size, slack):
                        session.feed([(token + 1) % 11 for token in range(count)])
                        session.truncate(length)
                case "truncate":
                    if length - size >= session.earliest():
                        session.truncate(length - size)
                case "snapshot":
                    snapshot = session.snapshot()
                case "restore":
                    session.restore(snapshot)
                case _:
                    session.reset()
        if chunk := ids[session.length :]:
            assert_rows(rows, session, chunk)

    @pytest.mark.parametrize("name", ["grouped", "window"])
    def test_fast_streams_to_rounding(self, name: str) -> None:
        """Without promised bits, within 1e-12 of the largest logit."""
        ids, rows = truth(name)
        session = Session(model_of(name), FAST)
        streamed = np.concatenate([session.feed([token])[0] for token in ids])
        assert np.max(np.abs(rows - streamed)) <= 1e-12 * np.max(np.abs(rows))


class TestCaches:
    """Two rows of G·w numbers a token, as many as are visible."""

    @pytest.mark.parametrize(("window", "slack"), [(None, 2), (1, 0), (4, 2), (19, 2)])
    @pytest.mark.parametrize(("heads", "groups", "width"), [(4, 2, 4), (3, 1, 2)])
    def test_floats(self, heads: int, groups: int, width: int, window: int | None, slack: int) -> None:
        """At every length, and what is allocated from the start on; slack keeps rows behind a window."""
        sizes = replace(
            PLAIN, layers=1, heads=heads, key_value_heads=groups, head_width=width, window=window, feed_forward=1
        )
        session = Session(Llama.initialize(sizes, SplitMix64(0)), FAST, SessionOptions(capacity=20, slack=slack))
        row = 2 * groups * width
        places = 20 if window is None else min(20, window + slack)
        formula = "2*G*w*t" if window is None else "2*G*w*min(t,W)"
        for tokens in range(21):
            seen = tokens if window is None else min(tokens, window)
            behind = 0 if window is None else min(tokens, places) - seen
            assert (Accounting(row * seen, row * behind, row * places, formula),) == session.accounting()
            if tokens < 20:
                session.feed([1 + tokens % 5])

    def test_allocated_is_what_the_arrays_hold(self) -> None:
        """Found by looking into the states."""
        session = Session(model_of("window"), STRICT, SessionOptions(capacity=12, slack=2))
        for state, layer in zip(session.snapshot().states, session.accounting(), strict=True):
            assert isinstance(state, GroupedQueryState)
            assert layer.allocated == state.keys.storage.size + state.values.storage.size == 2 * 5 * 8

    def test_keys_are_kept_turned_and_values_as_they_are(self) -> None:
        """A row holds the heads of the token side by side."""
        session = opened("grouped", start=7)
        seen: dict[str, Array] = {}
        model_of("grouped").forward(
            Tape(STRICT), [4, 2, 9], 1, 7, observe=lambda name, value: seen.update({name: value.value})
        )
        session.feed([4, 2, 9])
        state = session.snapshot().states[0]
        assert isinstance(state, GroupedQueryState)
        for store, name in ((state.keys, "key"), (state.values, "value")):
            expected = np.swapaxes(seen[f"blocks.0.mixer.{name}"][0], 0, 1).reshape(3, -1)
            assert expected.tobytes() == store.rows().tobytes()

    @pytest.mark.parametrize("slack", [0, 2])
    def test_a_ring_goes_back_as_far_as_its_rows(self, slack: int) -> None:
        """Of a window of 3, legal iff nothing was dropped or n ≥ base + 2."""
        session = Session(model_of("window"), STRICT, SessionOptions(slack=slack))
        for length in range(1, 10):
            session.feed([length])
            dropped = max(0, length - (3 + slack))
            assert session.earliest() == (0 if dropped == 0 else dropped + 2)
        refuses(
            session,
            SessionError("truncation-refused", layer=0, requested=4, earliest=8 - slack),
            lambda: session.truncate(4),
        )

    def test_without_layers_there_is_nothing_to_keep(self) -> None:
        """A session of no blocks can be cut anywhere."""
        session = opened("no-layers")
        session.feed([1, 2, 3])
        assert ((), 0) == (session.accounting(), session.earliest())
        session.truncate(1)
        assert 1 == session.length


def too_large() -> Llama:
    """Return a model whose first layer, for id 3 alone, scores beyond binary64."""
    model = stirred(PLAIN)
    by_name = {parameter.name: parameter for parameter in model.parameters}
    for name in ("query", "key"):
        by_name[f"blocks.0.attention.{name}.weight"].assign(by_name[f"blocks.0.attention.{name}.weight"].value * 1e160)
    return model


class TestRefusals:
    """What is refused, and that the session is then as it was."""

    @pytest.mark.parametrize(
        ("ids", "error"),
        [
            ([3, 13], SessionError("token-out-of-range", index=1, token=13, vocabulary=13)),
            ([1] * 10, SessionError("capacity-exceeded", length=9, count=10, capacity=TOKENS + 4)),
        ],
    )
    def test_tokens(self, ids: list[int], error: CaiReferenceError) -> None:
        """Before anything is computed."""
        session = opened("window", slack=2)
        session.feed(sequence(13, 9))
        refuses(session, error, lambda: session.feed(ids))

    def test_a_score_beyond_binary64(self) -> None:
        """Named with its head; the batch path refuses the same product."""
        model = too_large()
        with raised_with(AutogradError, "non-finite-forward"):
            model.forward(Tape(STRICT), [3], 1)
        session = Session(model, STRICT)
        with raised_with(SessionError, "non-finite-score"):
            session.feed([3])
        assert 0 == session.length

    def test_a_row_without_energy(self) -> None:
        """Without an epsilon, an embedding of zeros has no norm, in a session as in a batch; nothing is remembered."""
        model = stirred(replace(PLAIN, epsilon=0.0))
        table = model.table.value.copy()
        table[12] = 0.0
        model.table.assign(table)
        session = Session(model, STRICT)
        session.feed([1, 2])
        refuses(session, LayerError("zero-energy-row", row=1), lambda: session.feed([6, 12]))
        with raised_with(LayerError, "zero-energy-row"):
            model.forward(Tape(STRICT), [6, 12], 1)


class TestGeneration:
    """Greedy decoding: by re-encoding, by streaming, and with guesses, the same."""

    LIMITS = Limits(eos=None, new_tokens=7, context=24)

    @pytest.mark.parametrize(
        "name", ["grouped", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("window", "multi-query"))]
    )
    def test_paths_agree(self, name: str) -> None:
        """Tokens and the bits of every chosen row."""
        model, prompt = model_of(name), [3, 5, 0, 5]
        full = generate(ReencodingPath(model, STRICT), prompt, self.LIMITS)
        for chunk in (1, 2, 3):
            streamed = generate(StreamingPath(Session(model, STRICT), chunk), prompt, self.LIMITS)
            assert full.ids == streamed.ids
            assert [row.tobytes() for row in full.rows] == [row.tobytes() for row in streamed.rows]

    @pytest.mark.parametrize("name", [pytest.param("grouped", marks=pytest.mark.exhaustive), "window"])
    def test_guesses_change_nothing(self, name: str) -> None:
        """Wrong at planned offsets, or the model's own, which are all right."""
        model, prompt = model_of(name), [3, 5, 0, 5]
        plain = generate(ReencodingPath(model, STRICT), prompt, self.LIMITS)
        for draft in (ScriptedDraft(plain.ids, 4, 3, 13), SelfDraft(Session(model, STRICT, SessionOptions(slack=4)))):
            path = StreamingPath(Session(model, STRICT, SessionOptions(slack=4)))
            guessed = speculate(path, draft, prompt, self.LIMITS, 3)
            assert plain.ids == guessed.ids
            assert [row.tobytes() for row in plain.rows] == [row.tobytes() for row in guessed.rows]
            accepted = [one.accepted == one.proposed for one in guessed.passes]
            assert all(accepted) == isinstance(draft, SelfDraft)

    def test_work(self) -> None:
        """A prompt of two and one more token: 2 + 1 tokens fed to each layer's cache, 3 appended rows."""
        session = Session(model_of("grouped"), STRICT)
        path = StreamingPath(session)
        generate(path, [0, 1], replace(self.LIMITS, new_tokens=2))
        assert (3, 3) == (path.forwards, session.length)
