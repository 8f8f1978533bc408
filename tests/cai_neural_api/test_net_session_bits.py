"""Streaming a net, however its tokens are cut, gives the bits of the whole pass in strict arithmetic."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_reference.arithmetic.instances import STRICT
from support_net_graph import drawn, streamed
from support_net_models import TINY, layers_of

NETS: Final[dict[str, Net]] = {name: drawn(layers_of(configuration)) for name, configuration in TINY.items()}
"""Attention, windowed, latent, recurrent, grouped, parallel, several heads, a draft; context 7."""

VOCABULARY: Final = 13
CONTEXT: Final = 7

ids_of = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=CONTEXT)


def assert_equal_in_every_bit(net: Net, ids: list[int], cuts: list[int]) -> None:
    """Compare the outputs of every layer, so the logits too, with those of the whole pass."""
    session = NetSession(net, STRICT, CONTEXT, carries_shift=True)
    whole = net.run(STRICT, [ids]).outputs
    for layer, (expected, found) in enumerate(zip(whole, streamed(session, ids, cuts), strict=True)):
        assert expected[0].tobytes() == np.ascontiguousarray(found).tobytes(), (layer, net.specs[layer].kind)


@pytest.mark.parametrize("name", TINY)
class TestBits:
    """Each architecture that the builders know, with drawn weights."""

    def test_a_token_a_step_gives_the_bits_of_the_whole_pass(self, name: str) -> None:
        """Of every layer's output."""
        assert_equal_in_every_bit(NETS[name], [3, 0, 12, 5, 5, 1, 8], [1, 2, 3, 4, 5, 6])

    def test_every_prefix_gives_the_first_rows_of_the_whole_pass(self, name: str) -> None:
        """No token looks ahead: the batch path agrees with itself at lengths 1 to 7."""
        ids = [9, 2, 0, 7, 12, 7, 1]
        whole = NETS[name].run(STRICT, [ids]).output[0]
        for length in range(1, CONTEXT + 1):
            assert whole[:length].tobytes() == NETS[name].run(STRICT, [ids[:length]]).output[0].tobytes()

    @given(ids=ids_of, data=st.data())
    @settings(max_examples=2)
    def test_any_cutting_gives_the_bits_of_the_whole_pass(self, name: str, ids: list[int], data: st.DataObject) -> None:
        """A few drawn cuttings."""
        cuts = sorted(data.draw(st.sets(st.integers(1, CONTEXT))))
        assert_equal_in_every_bit(NETS[name], ids, [cut for cut in cuts if cut < len(ids)])

    @pytest.mark.exhaustive
    @given(ids=ids_of, data=st.data())
    @settings(max_examples=50)
    def test_many_cuttings_give_the_bits_of_the_whole_pass(
        self, name: str, ids: list[int], data: st.DataObject
    ) -> None:
        """Many of them."""
        cuts = sorted(data.draw(st.sets(st.integers(1, CONTEXT))))
        assert_equal_in_every_bit(NETS[name], ids, [cut for cut in cuts if cut < len(ids)])

    def test_a_restored_snapshot_goes_on_with_the_same_bits(self, name: str) -> None:
        """After a detour, and in a session with less room."""
        net, ids = NETS[name], [4, 11, 0, 6, 2, 9, 9]
        session = NetSession(net, STRICT, 20, carries_shift=True)
        session.step(ids[:3], 0)
        snapshot = session.snapshot()
        expected = session.step(ids[3:], 3)[-1].tobytes()
        other = NetSession(net, STRICT, CONTEXT, carries_shift=True)
        other.step([1, 1], 0)
        for each in (session, other):
            each.restore(snapshot)
            each.step([12], 3)
            each.restore(snapshot)
            assert expected == each.step(ids[3:], 3)[-1].tobytes()

    def test_a_reset_session_is_a_new_one(self, name: str) -> None:
        """Nothing of what was fed is left."""
        session = NetSession(NETS[name], STRICT, CONTEXT, carries_shift=True)
        first = session.step([5, 3], 0)[-1].tobytes()
        session.step([7], 2)
        session.reset()
        assert first == session.step([5, 3], 0)[-1].tobytes()


@pytest.mark.parametrize("name", ["attention", "window", "latent", "parallel", "futures", "grouped everything"])
def test_cut_caches_go_on_with_the_bits_of_the_shorter_sequence(name: str) -> None:
    """Rows behind the cut are overwritten, and never looked at."""
    session = NetSession(NETS[name], STRICT, CONTEXT)
    session.step([5, 3, 1, 12], 0)
    session.truncate(2)
    whole = NETS[name].run(STRICT, [[5, 3, 8]]).output[0]
    assert whole[2:].tobytes() == session.step([8], 2)[-1].tobytes()
