"""A streaming session on a net: what it remembers, what it refuses, and that a step that fails leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

import support_net_formulas as formula
from cai_neural_api.errors import NetError, NetSessionError
from cai_neural_api.net.cache import Eviction
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from support_net_graph import attention, convolution, drawn, source, spec, streamed, values
from support_net_models import SSM, TINY, layers_of, tiny
from support_refusals import raises

HYBRID: Final = drawn(layers_of(TINY["hybrid"]))
ATTENTION: Final = drawn(layers_of(TINY["attention"]))
WINDOW: Final = drawn(layers_of(TINY["window"]))
DRAFT: Final = drawn(layers_of(TINY["draft"]))

LONE: Final = drawn([source(9, 6), attention(0, 2)])
"""An attention layer alone, which reads its queries, keys and values as they are."""


def lone(capacity: int = 9, *, stale_overflow: bool = False) -> NetSession:
    """Open a session on a lone attention layer."""
    return NetSession(LONE, STRICT, capacity, stale_overflow=stale_overflow)


def feed(session: NetSession, rows: Array, position: int = 0) -> Array:
    """Feed rows [tokens, 6] to a lone layer and return its output."""
    return session.step(rows.tolist(), position)[-1]


def future(session: NetSession) -> bytes:
    """Return the bits of what would follow, from a copy."""
    snapshot = session.snapshot()
    bits = b"".join(session.step([token], 3)[-1].tobytes() for token in (1, 5))
    session.restore(snapshot)
    return bits


class TestCaches:
    """Attention over rows that were stored."""

    ROWS: Final = values(8, 6, seed=31)

    def test_a_layer_that_is_not_causal_is_causal_in_a_cache(self) -> None:
        """As in the library: a token cannot look at what has not come."""
        net = drawn([source(8, 6), attention(0, 2, causal=0)])
        found = NetSession(net, STRICT, 8).step(self.ROWS.tolist(), 0)[-1]
        np.testing.assert_allclose(found, formula.attend(self.ROWS.tolist(), 2), rtol=1e-14, atol=1e-14)

    @pytest.mark.parametrize("pieces", [[1] * 8, [3, 5], [8], [4, 1, 3]])
    def test_eviction_keeps_sinks_and_recent_tokens(self, pieces: list[int]) -> None:
        """Two sinks and three recent ones, the current included; however the tokens come in."""
        session = lone(5)
        session.evict(Eviction(2, 3))
        rows, found, first = self.ROWS.tolist(), [], 0
        for size in pieces:
            found += feed(session, self.ROWS[first : first + size]).tolist()
            first += size
        for at, output in enumerate(found):
            kept = [*range(min(2, at + 1)), *range(max(2, at - 2), at + 1)]
            expected = formula.attend([rows[place] for place in kept], 2)[-1]
            np.testing.assert_allclose(output, expected, rtol=1e-13, atol=1e-14)
        assert (5,) == session.lengths

    def test_eviction_can_be_ended(self) -> None:
        """Then the caches fill up to their capacity."""
        session = lone(6)
        session.evict(Eviction(1, 2))
        feed(session, self.ROWS[:5])
        session.evict(None)
        feed(session, self.ROWS[:3])
        assert (6,) == session.lengths
        with raises(NetSessionError("cache-overflow", length=6, tokens=1, capacity=6)):
            feed(session, self.ROWS[:1])

    def test_eight_bits_round_keys_and_values_by_themselves(self) -> None:
        """To multiples of the largest magnitude / 127, ties to even; queries are not rounded."""
        session = lone()
        session.quantise()
        # Key: 127 stays, 2.5 becomes 2. Value: in steps of 2, 3 is 1.5 steps and becomes 4, -5 becomes -4.
        row = np.array([[0.1, 0.2, 127.0, 2.5, 254.0, 3.0], [0.3, 0.4, 0.0, 0.0, -254.0, -5.0]])
        rounded = [[0.1, 0.2, 127.0, 2.0, 254.0, 4.0], [0.3, 0.4, 0.0, 0.0, -254.0, -4.0]]
        np.testing.assert_allclose(feed(session, row), formula.attend(rounded, 2), rtol=1e-14)

    def test_eight_bits_hold_what_is_too_small_to_be_divided(self) -> None:
        """As 0."""
        session = lone()
        session.quantise()
        assert [[0.0, 0.0]] == feed(session, np.array([[1.0, 1.0, 0.0, 0.0, 5e-324, 0.0]])).tolist()

    def test_caches_change_their_format_only_while_empty(self) -> None:
        """And back again after a reset."""
        session = lone()
        feed(session, self.ROWS[:1])
        with raises(
            NetSessionError("quantisation-refused", reason="caches change their format only while they are empty")
        ):
            session.quantise()
        session.reset()
        session.quantise()
        session.quantise(False)
        assert feed(session, self.ROWS[:2]).tobytes() == feed(lone(), self.ROWS[:2]).tobytes()

    def test_a_full_cache_may_give_the_output_of_the_step_before(self) -> None:
        """As the library does, with a message; nothing is appended, and other layers go on."""
        session = lone(2, stale_overflow=True)
        feed(session, self.ROWS[:1])
        stale = feed(session, self.ROWS[1:2]).tobytes()
        assert [stale, stale] == [feed(session, self.ROWS[at : at + 1]).tobytes() for at in (2, 3)]
        assert (2,) == session.lengths

    def test_without_a_step_before_there_is_nothing_stale(self) -> None:
        """Nor where it had another number of tokens."""
        with raises(NetSessionError("cache-overflow", length=0, tokens=3, capacity=2)):
            feed(lone(2, stale_overflow=True), self.ROWS[:3])
        session = lone(2, stale_overflow=True)
        feed(session, self.ROWS[:1])
        with raises(NetSessionError("cache-overflow", length=1, tokens=2, capacity=2)):
            feed(session, self.ROWS[:2])

    @pytest.mark.parametrize(
        ("eviction", "reason"),
        [
            (Eviction(0, 2), "the library takes no sinks for no eviction, for which None stands"),
            (Eviction(1, 0), "at least the current token has to stay"),
            (Eviction(4, 6), "the caches have room for 9"),
            (Eviction(1, 2), "the caches hold more already"),
        ],
    )
    def test_eviction_has_its_limits(self, eviction: Eviction, reason: str) -> None:
        """Four tokens in a cache of nine."""
        session = lone()
        feed(session, self.ROWS[:4])
        with raises(NetSessionError("eviction-refused", sinks=eviction.sinks, recent=eviction.recent, reason=reason)):
            session.evict(eviction)

    def test_a_window_is_not_evicted_from(self) -> None:
        """It looks at few rows as it is."""
        with raises(NetSessionError("eviction-refused", sinks=1, recent=2, reason="a layer has a window already")):
            NetSession(WINDOW, STRICT, 9).evict(Eviction(1, 2))


class TestCutting:
    """Caches follow, states do not."""

    def test_a_cut_is_within_what_is_held(self) -> None:
        """From 0 to the length."""
        session = NetSession(ATTENTION, STRICT, 9)
        session.step([1, 2, 3], 0)
        for length in (-1, 4):
            with raises(NetSessionError("cut-out-of-range", wanted=length, length=3)):
                session.truncate(length)
        session.truncate(3)
        session.truncate(0)
        assert {0} == set(session.lengths)

    def test_a_recurrence_cannot_be_cut_back(self) -> None:
        """And the caches beside it are not cut."""
        session = NetSession(HYBRID, STRICT, 9)
        session.step([1, 2, 3], 0)
        layer = next(at for at, each in enumerate(HYBRID.specs) if each.kind == "TNNetDiagonalSSM")
        with raises(NetSessionError("recurrence-stays", layer=layer, kind="TNNetDiagonalSSM", wanted=2)):
            session.truncate(2)
        assert {3} == set(session.lengths)

    def test_a_carried_shift_cannot_be_cut_back_either(self) -> None:
        """One that is not carried has nothing to cut."""
        with raises(NetSessionError("recurrence-stays", layer=2, kind="TNNetTokenShift", wanted=0)):
            NetSession(DRAFT, STRICT, 9, carries_shift=True).truncate(0)
        NetSession(DRAFT, STRICT, 9).truncate(0)


class TestFailedSteps:
    """A step that raises leaves the session as it was, wherever it raises."""

    @pytest.mark.parametrize("name", ["hybrid", "draft", "window", "futures"])
    def test_a_token_without_a_row(self, name: str) -> None:
        """Behind tokens that have one."""
        session = NetSession(drawn(layers_of(TINY[name])), STRICT, 9, carries_shift=True)
        session.step([3, 1, 2], 0)
        before = future(session)
        with raises(NetError("net-token-out-of-range", position=1, token=13.0, vocabulary=13)):
            session.step([4, 13], 3)
        with raises(NetError("net-token-out-of-range", position=0, token=float("nan"), vocabulary=13)):
            session.step([float("nan")], 3)
        assert before == future(session)

    def test_no_tokens(self) -> None:
        """Nothing is a mistake."""
        session = NetSession(HYBRID, STRICT, 9)
        session.step([3, 1, 2], 0)
        before = future(session)
        with raises(NetSessionError("nothing-fed")):
            session.step([], 3)
        assert before == future(session)

    def test_too_many_tokens(self) -> None:
        """The recurrence in front of the first cache has not moved."""
        session = NetSession(HYBRID, STRICT, 5)
        session.step([3, 1, 2], 0)
        before = future(session)
        with raises(NetSessionError("cache-overflow", length=3, tokens=3, capacity=5)):
            session.step([1, 2, 3], 3)
        assert before == future(session)

    @pytest.mark.parametrize("prepare", [lambda session: None, lambda session: session.evict(Eviction(1, 2))])
    def test_numbers_that_are_not_finite(self, prepare: Callable[[NetSession], None]) -> None:
        """Found at the very end, when every cache and state has moved, and eviction has dropped rows."""
        net = HYBRID.copy()
        last = net.layers[-2].learned
        assert last is not None
        session = NetSession(net, STRICT, 9)
        prepare(session)
        session.step([3, 1, 2], 0)
        before, lengths = future(session), session.lengths
        kept = last.weights[0].copy()
        last.weights[0][:] = np.inf
        for tokens in ([1], [4, 2], [4, 2, 6, 5]):
            with raises(NetError("non-finite-output", layer=len(net.layers) - 2, kind="TNNetPointwiseConvLinear")):
                session.step(tokens, 3)
        last.weights[0][:] = kept
        assert (before, lengths) == (future(session), session.lengths)

    def test_a_stale_output_is_that_of_the_last_step_that_worked(self) -> None:
        """Not that of one that failed."""
        net = drawn([source(4, 6), attention(0, 2), convolution(1, 3)])
        session = NetSession(net, STRICT, 1, stale_overflow=True)
        rows = values(3, 6).tolist()
        expected = session.step(rows[:1], 0)[1].tobytes()
        known = net.layers[2].learned
        assert known is not None
        known.biases[0] = np.nan
        with raises(NetError("non-finite-output", layer=2, kind="TNNetPointwiseConvLinear")):
            session.step(rows[1:2], 1)
        known.biases[0] = 0.0
        assert expected == session.step(rows[2:], 2)[1].tobytes()


class TestSnapshots:
    """Everything that is remembered, copied."""

    def test_a_snapshot_holds_caches_states_and_carried_shifts(self) -> None:
        """And no rows behind the length."""
        session = NetSession(HYBRID, STRICT, 9)
        session.step([3, 1, 2], 0)
        snapshot = session.snapshot()
        assert [(3, 2 * 6)] * 3 == [cache.rows.shape for cache in snapshot.caches]
        assert [(12,)] * 2 == [state.shape for state in snapshot.recurrences]
        assert () == snapshot.shifts
        assert [(6,)] == [shift.shape for shift in NetSession(DRAFT, STRICT, 9, carries_shift=True).snapshot().shifts]

    def test_what_follows_does_not_reach_into_a_snapshot(self) -> None:
        """It can be restored again and again, in two sessions at once."""
        sessions = [NetSession(HYBRID, STRICT, capacity) for capacity in (9, 6)]
        sessions[0].step([3, 1, 2], 0)
        snapshot = sessions[0].snapshot()
        expected = sessions[0].step([5], 3)[-1].tobytes()
        for session in sessions * 2:
            session.restore(snapshot)
            session.step([8, 8], 3)
        for session in sessions:
            session.restore(snapshot)
            assert expected == session.step([5], 3)[-1].tobytes()

    def test_eviction_is_part_of_a_snapshot(self) -> None:
        """As in the library's capture."""
        rows = values(7, 6)
        session = lone()
        session.evict(Eviction(1, 2))
        feed(session, rows[:5])
        snapshot = session.snapshot()
        other = lone()
        other.restore(snapshot)
        assert feed(session, rows[5:]).tobytes() == feed(other, rows[5:]).tobytes()
        assert (3,) == other.lengths

    def test_a_snapshot_has_to_fit(self) -> None:
        """With what it holds, and with what its eviction may come to hold."""
        session = lone()
        feed(session, values(4, 6))
        with raises(NetSessionError("snapshot-too-long", needed=4, capacity=3)):
            lone(3).restore(session.snapshot())
        other = lone()
        other.evict(Eviction(2, 5))
        with raises(NetSessionError("snapshot-too-long", needed=7, capacity=6)):
            lone(6).restore(other.snapshot())

    def test_a_snapshot_of_another_kind_of_session_is_refused(self) -> None:
        """By the numbers and widths of what it holds; nothing is restored by half."""
        session = NetSession(HYBRID, STRICT, 9)
        session.step([3, 1, 2], 0)
        before = future(session)
        attending = NetSession(ATTENTION, STRICT, 9).snapshot()
        with raises(NetSessionError("foreign-snapshot", what="caches", given=(8, 8, 8), expected=(12, 12, 12))):
            session.restore(attending)
        recurrent = NetSession(drawn(layers_of(tiny(SSM))), STRICT, 9)
        with raises(NetSessionError("foreign-snapshot", what="recurrences", given=(), expected=(12,))):
            recurrent.restore(NetSession(DRAFT, STRICT, 9).snapshot())
        with raises(NetSessionError("foreign-snapshot", what="token shifts", given=(), expected=(6,))):
            NetSession(DRAFT, STRICT, 9, carries_shift=True).restore(NetSession(DRAFT, STRICT, 9).snapshot())
        assert before == future(session)

    def test_caches_in_eight_bits_are_not_copied(self) -> None:
        """In neither direction."""
        session, plain = lone(), lone().snapshot()
        session.quantise()
        for call in (session.snapshot, lambda: session.restore(plain)):
            with raises(NetSessionError("quantisation-refused", reason="caches in 8 bits are not copied")):
                call()


class TestWholeSequences:
    """Layers whose formula speaks of rows, of which a step sees a few."""

    def test_a_masked_softmax_cannot_be_streamed(self) -> None:
        """What a row sees depends on where it stands; without the mask it does not."""
        with raises(NetSessionError("not-streamable", layer=1, kind="TNNetPointwiseSoftMax")):
            NetSession(drawn([source(4, 4), spec("PointwiseSoftMax", 0, (1, 1))]), STRICT, 4)
        NetSession(drawn([source(4, 4), spec("PointwiseSoftMax", 0, (1, 0))]), STRICT, 4)


class TestOutputs:
    """What a step gives besides the last row."""

    def test_every_layer_is_there(self) -> None:
        """As rows of the tokens that were fed."""
        outputs = NetSession(HYBRID, STRICT, 9).step([3, 1, 2], 0)
        assert [(3, shape.depth) for shape in HYBRID.shapes] == [output.shape for output in outputs]

    @pytest.mark.parametrize(("name", "back"), [("attention", 3), ("draft", 3), ("futures", 2)])
    def test_the_hidden_state_feeds_the_output_projection(self, name: str, back: int) -> None:
        """A softmax at the end is skipped, then a layer; of several heads it is the last softmax, as in the library."""
        net = drawn(layers_of(TINY[name]))
        session = NetSession(net, STRICT, 9)
        with raises(NetSessionError("nothing-fed")):
            _ = session.hidden_state
        outputs = session.step([3, 1], 0)
        assert outputs[len(outputs) - back].tobytes() == session.hidden_state.tobytes()

    def test_the_position_turns_the_keys(self) -> None:
        """It is the caller's, and only differences of positions count."""
        net = drawn([source(4, 6), spec("RotaryEmbedding", 0, number=10.0)])
        rows = values(2, 6)
        found = NetSession(net, STRICT, 9).step(rows.tolist(), 5)[-1]
        np.testing.assert_allclose(found, formula.rotate(rows.tolist(), 10.0, start=5), rtol=1e-13, atol=1e-14)

    def test_a_session_sees_what_an_optimiser_changed(self) -> None:
        """Weights are read at every step."""
        net = ATTENTION.copy()
        session = NetSession(net, FAST, 9)
        for layer in net.layers:
            if layer.learned is not None:
                for array in layer.learned.arrays:
                    array *= 0.5
        expected = net.run(FAST, [[3, 1]]).output[0]
        np.testing.assert_allclose(streamed(session, [3, 1], [1])[-1], expected, rtol=1e-12)


def test_a_net_without_anything_to_remember_is_streamed_too() -> None:
    """Each token by itself, and no capacity is ever used up."""
    net: Net = drawn([source(4), spec("Embedding", 0, (5, 2), number=0.02), convolution(1, 3)])
    session = NetSession(net, STRICT, 1)
    assert (0, 0, 0) == session.counts
    assert () == session.lengths
    whole = net.run(STRICT, [[4, 0, 2]]).output[0]
    assert whole.tobytes() == streamed(session, [4, 0, 2], [1, 2])[-1].tobytes()
