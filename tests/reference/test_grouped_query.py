"""Grouped-query attention and the layers without biases: who reads whom, and in which order sums are made."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.errors import LayerError
from cai_reference.layers.attention import GroupedQueryAttention, repeat_heads
from cai_reference.layers.feed_forward import GatedFeedForward
from cai_reference.layers.matrices import BiasFree, TiedOutput
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.projection import Dense
from cai_reference.layers.rope import Rope, RopeLayout
from cai_reference.splitmix import SplitMix64
from support_differences import check_gradients, drawn
from support_refusals import raises

TAPE = Tape(STRICT, recording=False)
ADJACENT, HALF_SPLIT = Rope(50.0, RopeLayout.ADJACENT), Rope(50.0, RopeLayout.HALF_SPLIT)


def matrix(values: Array) -> BiasFree:
    """Return a projection of given weights."""
    return BiasFree(Parameter("w", values))


def attention(
    matrices: Sequence[Array], heads: int, groups: int, window: int | None = None, rope: Rope = HALF_SPLIT
) -> GroupedQueryAttention:
    """Return a mixer of given matrices: query, key, value, output."""
    query, key, value, output = map(matrix, matrices)
    return GroupedQueryAttention(query, key, value, output, heads, groups, rope, window)


def mixed(mixer: GroupedQueryAttention | Attention, x: Array, start: int = 0) -> Array:
    """Mix constants [batch, tokens, width]."""
    return mixer(TAPE, TAPE.constant(x), start).value


class TestWhoReadsWhom:
    """Query head h reads head h div (H/G) of keys and values."""

    def test_heads_of_a_group_stand_together(self) -> None:
        """Four query heads, two groups, one token: each head returns its group's value, laid out 0, 0, 1, 1."""
        value = np.array([[1.0, 2.0, 30.0, 40.0]])
        mixer = attention((np.zeros((1, 8)), np.zeros((1, 4)), value, np.eye(8)), 4, 2)
        assert [1.0, 2.0, 1.0, 2.0, 30.0, 40.0, 30.0, 40.0] == mixed(mixer, np.ones((1, 1, 1)))[0, 0].tolist()

    def test_keys_are_shared_like_values(self) -> None:
        """Only the keys of group 1 tell the tokens apart; heads 2 and 3 choose, heads 0 and 1 average."""
        query, key, value = np.full((1, 8), 10.0), np.array([[0.0, 0.0, 10.0, 10.0]]), np.ones((1, 4))
        mixer = attention((query, key, value, np.eye(8)), 4, 2, rope=Rope(1e300))
        # Tokens −1 and 1; the query at 1 finds the second one in group 1, and both alike in group 0.
        last = mixed(mixer, np.array([[[-1.0], [1.0]]]))[0, 1]
        assert pytest.approx([0.0] * 4 + [1.0] * 4, abs=1e-12) == last.tolist()

    @pytest.mark.parametrize("groups", [1, 2, 4])
    def test_sharing_is_repeating(self, groups: int) -> None:
        """The bits of attention with a key and a value a head, whose matrices are the shared ones again and again."""
        heads, width, w = 4, 6, 4
        query, output = drawn((width, heads * w), 1), drawn((heads * w, width), 2)
        key, value = (drawn((width, groups * w), seed) for seed in (3, 4))
        own = [
            np.repeat(part.reshape(width, groups, w), heads // groups, axis=1).reshape(width, heads * w)
            for part in (key, value)
        ]
        x = drawn((2, 7, width), 5)
        shared = attention((query, key, value, output), heads, groups, window=3)
        repeated = attention((query, *own, output), heads, heads, window=3)
        assert mixed(repeated, x, 5).tobytes() == mixed(shared, x, 5).tobytes()

    @pytest.mark.parametrize("window", [None, 2])
    def test_without_sharing_it_is_multi_head_attention(self, window: int | None) -> None:
        """The bits of the mixer with one slab, its biases zero."""
        width, heads = 8, 2
        query, key, value, output = (drawn((width, width), seed) for seed in range(4))
        slab = Dense(Parameter("slab", np.concatenate([query, key, value], axis=1)), Parameter("b", np.zeros(24)))
        dense = Dense(Parameter("output", output), Parameter("c", np.zeros(width)))
        x = drawn((2, 5, width), 9)
        expected = mixed(Attention(slab, dense, heads, window, 50.0), x, 7)
        actual = mixed(attention((query, key, value, output), heads, heads, window, ADJACENT), x, 7)
        assert expected.tobytes() == actual.tobytes()

    def test_the_scale_is_that_of_a_head(self) -> None:
        """Tokens ½ and 1, a head of four ones: scores are halved sums of four, two of which turning changes."""
        ones = np.ones((1, 4))
        mixer = attention((ones, ones, ones, np.eye(4)), 1, 1, rope=Rope(1e300))
        first = math.exp(0.5 * (0.5 * (2.0 * math.cos(1.0) + 2.0)))
        second = math.exp(0.5 * 4.0)
        expected = (first * 0.5 + second * 1.0) / (first + second)
        assert pytest.approx([expected] * 4, rel=1e-14) == mixed(mixer, np.array([[[0.5], [1.0]]]))[0, 1].tolist()

    def test_a_window_counts_the_token_itself(self) -> None:
        """With a window of one, every token returns its own value."""
        value = drawn((3, 4), 1)
        mixer = attention((drawn((3, 8), 2), drawn((3, 4), 3), value, np.eye(8)), 4, 2, window=1)
        x = drawn((1, 5, 3), 4)
        own = STRICT.matmul(x, value).reshape(1, 5, 2, 1, 2)
        assert np.broadcast_to(own, (1, 5, 2, 2, 2)).reshape(1, 5, 8).tobytes() == mixed(mixer, x).tobytes()


class TestTheExampleOfTheCourse:
    """Two heads of width 2, identity matrices, and an output that exchanges the heads (course, chapter 30)."""

    def test_a_head_of_equal_scores_averages_what_it_sees(self) -> None:
        """The first head's inputs are turned back by their position, so that after rotation all are (1, 0)."""
        exchange = np.zeros((4, 4))
        exchange[[0, 1, 2, 3], [2, 3, 0, 1]] = 1.0
        identity = np.eye(4)
        mixer = attention((identity, identity, identity, exchange), 2, 2, rope=Rope(100.0))
        x = [[1.0, 0.0, 1.0, 0.0], [math.cos(1), -math.sin(1), 0.0, 1.0], [math.cos(2), -math.sin(2), 1.0, 1.0]]
        seen: dict[str, Array] = {}
        result = mixer(TAPE, TAPE.constant(np.array([x])), 0, lambda name, value: seen.update({name: value.value}))
        assert np.allclose(seen["query"][0, 0], [[1.0, 0.0]] * 3, rtol=0.0, atol=1e-15)
        third = 1.0 / 3.0
        expected = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [third, third, third]]
        assert np.allclose(seen["weights"][0, 0], expected, rtol=0.0, atol=1e-15)
        means = [[sum(row[k] for row in x[: t + 1]) / (t + 1) for k in range(2)] for t in range(3)]
        assert np.allclose(result.value[0, :, 2:], means, rtol=0.0, atol=1e-15)


class TestGradients:
    """Sums over a group ascend; everything has the slope of its values."""

    def test_copies_add_up_in_ascending_order(self) -> None:
        """1e16, 1, −1e16 and 1 make 1 in this order; zero and 2 in others."""
        x = Parameter("x", np.zeros((1, 2, 1, 1)))
        adjoint = np.array([1e16, 1.0, -1e16, 1.0, 1.0, 1e16, -1e16, 0.5]).reshape(1, 8, 1, 1)
        backward(repeat_heads(Tape(STRICT), x, 4), adjoint)
        assert [1.0, 0.5] == x.gradient.ravel().tolist()

    @pytest.mark.parametrize(("groups", "window"), [(1, None), (2, 2)])
    def test_slopes_of_attention(self, groups: int, window: int | None) -> None:
        """Every element of the input and of the four matrices; heads wider than the model over its heads."""

        def build(tape: Tape, p: list[Parameter]) -> Variable:
            query, key, value, output = map(BiasFree, p[1:])
            return GroupedQueryAttention(query, key, value, output, 2, groups, HALF_SPLIT, window)(tape, p[0], 5)

        shapes = ((1, 4, 3), (3, 8), (3, 4 * groups), (3, 4 * groups), (8, 3))
        check_gradients(build, [drawn(shape, 40 + at, 0.8) for at, shape in enumerate(shapes)], FAST)

    def test_slopes_of_the_feed_forward_layer(self) -> None:
        """Input, gate, up and down."""

        def build(tape: Tape, p: list[Parameter]) -> Variable:
            return GatedFeedForward(*(BiasFree(part) for part in p[1:]))(tape, p[0])

        shapes = ((2, 2, 3), (3, 4), (3, 4), (4, 3))
        check_gradients(build, [drawn(shape, 60 + at) for at, shape in enumerate(shapes)], STRICT)

    @pytest.mark.parametrize("tied", [False, True])
    def test_a_matrix_adds_sequence_by_sequence(self, tied: bool) -> None:
        """Over the rows of each sequence, then over the sequences: the bits of a loop, and not those of one sum."""
        rows, adjoint = drawn((3, 5, 2), 1, 1e3), drawn((3, 5, 4), 2, 1e3)
        weight = Parameter("w", drawn((4, 2) if tied else (2, 4), 3))
        projection = TiedOutput(weight) if tied else BiasFree(weight)
        backward(projection(Tape(STRICT), TAPE.constant(rows)), adjoint)
        expected, flat = np.zeros((2, 4)), np.zeros((2, 4))
        for i, j in np.ndindex(2, 4):
            for batch in range(3):
                total = 0.0
                for token in range(5):
                    total += rows[batch, token, i] * adjoint[batch, token, j]
                    flat[i, j] += rows[batch, token, i] * adjoint[batch, token, j]
                expected[i, j] += total
        gradient = weight.gradient.T if tied else weight.gradient
        assert expected.tobytes() == gradient.tobytes()
        assert flat.tobytes() != gradient.tobytes()


class TestLayers:
    """Names, draws, and what is refused."""

    def test_the_gate_is_the_branch_through_silu(self) -> None:
        """A gate of 1000 passes what `up` gives, a gate of −1000 nothing, and an `up` of 0 nothing either."""
        for gate, up, expected in ((1000.0, 2.0, 2000.0), (-1000.0, 2.0, 0.0), (5.0, 0.0, 0.0), (0.0, 5.0, 0.0)):
            layer = GatedFeedForward(*(matrix(np.array([[value]])) for value in (gate, up, 1.0)))
            assert [[[expected]]] == layer(TAPE, TAPE.constant(np.ones((1, 1, 1)))).value.tolist()

    def test_names_and_shapes(self) -> None:
        """In the order of drawing."""
        generator = SplitMix64(3)
        mixer = GroupedQueryAttention.initialize("m", 6, 4, 2, 8, HALF_SPLIT, None, generator)
        layer = GatedFeedForward.initialize("f", 6, 5, generator)
        assert [
            ("m.query.weight", (6, 32)),
            ("m.key.weight", (6, 16)),
            ("m.value.weight", (6, 16)),
            ("m.output.weight", (32, 6)),
            ("f.gate.weight", (6, 5)),
            ("f.up.weight", (6, 5)),
            ("f.down.weight", (5, 6)),
        ] == [(parameter.name, parameter.shape) for part in (mixer, layer) for parameter in part.parameters()]
        assert 8 == mixer.head_width

    @pytest.mark.parametrize(("heads", "groups"), [(4, 3), (4, 0), (4, 8), (0, 1), (4, -2)])
    def test_query_heads_are_shared_out_evenly(self, heads: int, groups: int) -> None:
        """Before anything is drawn."""
        generator = SplitMix64(0)
        with raises(LayerError("key-value-heads-do-not-divide", heads=heads, key_value_heads=groups)):
            GroupedQueryAttention.initialize("m", 6, heads, groups, 4, HALF_SPLIT, None, generator)
        assert SplitMix64(0).next_u64() == generator.next_u64()
