"""The operations and small layers of the decoder family on numbers worked by hand, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.features import channels, concatenate, logistic, permute_channels, previous, relu, tanh
from cai_reference.autograd.operations import gather, mean_of, scale
from cai_reference.autograd.probability import causal_softmax
from cai_reference.autograd.scan import diagonal_scan
from cai_reference.errors import AutogradError, CaiReferenceError, LayerError
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.multi_head_attention import Attention, check_heads
from cai_reference.layers.projection import Dense, GroupedLinear, GroupedStack, group_count, interleaving, project
from cai_reference.layers.rope import Rope, rotate, rotation
from cai_reference.layers.slab_feed_forward import FeedForward
from cai_reference.layers.token_shift import TokenShift
from cai_reference.splitmix import SplitMix64
from support_refusals import raises

TAPE = Tape(STRICT)
Nested = list[float] | list[list[float]] | list[list[list[float]]]


def constant(values: Nested) -> Variable:
    """Return a constant."""
    return TAPE.constant(np.array(values))


def leaf(values: Nested) -> Parameter:
    """Return a parameter."""
    return Parameter("p", np.array(values))


def dense(weight: list[list[float]], bias: list[float]) -> Dense:
    """Return a projection."""
    return Dense(leaf(weight), leaf(bias))


def half() -> float:
    """Return tanh ½ of strict/1."""
    return float(STRICT.tanh(0.5))


MATRIX: list[list[float]] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
OPERATIONS: list[tuple[Callable[[], Variable], Nested]] = [
    (lambda: scale(TAPE, constant([1.0, -2.0]), 0.5), [0.5, -1.0]),
    (lambda: tanh(TAPE, constant([0.0, 0.5])), [0.0, half()]),
    (lambda: logistic(TAPE, constant([0.0, 1000.0, -1000.0])), [0.5, 1.0, 0.0]),
    (lambda: relu(TAPE, constant([-1.0, 0.0, -0.0, 2.0])), [0.0, 0.0, 0.0, 2.0]),
    (lambda: channels(TAPE, constant(MATRIX), 1, 3), [[2.0, 3.0], [5.0, 6.0]]),
    (lambda: concatenate(TAPE, [constant([[1.0], [2.0]]), constant(MATRIX)]), [[1.0, 1, 2, 3], [2.0, 4, 5, 6]]),
    (lambda: permute_channels(TAPE, constant(MATRIX), [2, 0, 1]), [[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]]),
    (lambda: previous(TAPE, constant(MATRIX)), [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]),
    (lambda: previous(TAPE, constant(MATRIX[:1])), [[0.0, 0.0, 0.0]]),
    (lambda: mean_of(TAPE, [constant([1.0, 2.0]), constant([4.0, -2.0]), constant([1.0, 3.0])]), [2.0, 1.0]),
    (lambda: gather(TAPE, constant(MATRIX), [1, 0, 1], (3,), zero_index=0), [MATRIX[1], [0.0, 0.0, 0.0], MATRIX[1]]),
    (
        lambda: causal_softmax(TAPE, constant([[0.0, 9, 9], [0.0, 0.0, 9], [5.0, 0.0, 0.0]]), window=2),
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],
    ),
    (lambda: causal_softmax(TAPE, constant(np.ones((2, 2)).tolist()), window=1), [[1.0, 0.0], [0.0, 1.0]]),
]


@pytest.mark.parametrize(("operation", "expected"), OPERATIONS)
def test_operations_by_hand(operation: Callable[[], Variable], expected: Nested) -> None:
    """Exact, and no negative zero from ReLU."""
    actual = operation().value
    assert expected == actual.tolist()
    assert not np.signbit(actual[actual == 0.0]).any()


def test_the_scan_by_hand() -> None:
    """One channel with a ½, b 2, c 3, e 1 over 1, 0, −1: states 2, 1, −1½; a second one is a running sum."""
    x = constant([[[1.0, 1.0], [0.0, 10.0], [-1.0, 100.0]]])
    a, b, c, e = (leaf(values) for values in ([0.5, 1.0], [2.0, 1.0], [3.0, 1.0], [1.0, 0.0]))
    assert [[[7.0, 1.0], [3.0, 11.0], [-5.5, 111.0]]] == diagonal_scan(TAPE, x, a, b, c, e).value.tolist()


def test_the_scan_starts_each_sequence_anew() -> None:
    """Rows of a batch share nothing, and no token sees a later one."""
    ones = leaf([1.0])
    x = constant([[[1.0], [2.0]], [[5.0], [0.0]]])
    scanned = diagonal_scan(TAPE, x, ones, ones, ones, leaf([0.0])).value
    assert [[[1.0], [3.0]], [[5.0], [5.0]]] == scanned.tolist()


def test_relu_passes_gradients_at_zero() -> None:
    """The slope is 1 at zeros of both signs."""
    x = leaf([-1.0, 0.0, -0.0, 2.0])
    backward(relu(TAPE, x))
    assert [0.0, 1.0, 1.0, 1.0] == x.gradient.tolist()


def test_a_dead_row_is_neither_read_nor_trained() -> None:
    """Row 0 of a table with zero id 0 gets no gradient; another row gets one contribution an occurrence."""
    table = leaf([[9.0], [1.0], [2.0]])
    backward(gather(TAPE, table, [1, 0, 1, 1], (4,), zero_index=0))
    assert [[0.0], [3.0], [0.0]] == table.gradient.tolist()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (
            lambda: channels(TAPE, constant(MATRIX), 1, 4),
            AutogradError("index-out-of-bounds", axis=1, index=4, dimension=3),
        ),
        (
            lambda: channels(TAPE, constant(MATRIX), -1, 2),
            AutogradError("index-out-of-bounds", axis=1, index=-1, dimension=3),
        ),
        (
            lambda: concatenate(TAPE, [constant(MATRIX), constant([[1.0]])]),
            AutogradError("data-length-mismatch", expected=2, actual=1),
        ),
        (lambda: rotate(TAPE, constant(MATRIX), 0, Rope(1e4)), LayerError("odd-rope-width", width=3)),
        (lambda: check_heads(10, 3), LayerError("heads-do-not-divide", width=10, heads=3)),
        (lambda: check_heads(10, 0), LayerError("heads-do-not-divide", width=10, heads=0)),
        (lambda: check_heads(10, 2), LayerError("odd-rope-width", width=5)),
        (
            lambda: Attention(dense([[1.0]], [0.0]), dense([[1.0]], [0.0]), 1, 0, 1e4),
            LayerError("window-too-small", window=0),
        ),
        (
            lambda: Attention.initialize("m", 8, 2, -1, 1e4, None, SplitMix64(0)),
            LayerError("window-too-small", window=-1),
        ),
        (
            lambda: LatentAttention.initialize("m", 8, 2, 3, 0, 1e4, None, SplitMix64(0)),
            LayerError("odd-rope-width", width=0),
        ),
        (
            lambda: LatentAttention.initialize("m", 8, 2, 3, 3, 1e4, None, SplitMix64(0)),
            LayerError("odd-rope-width", width=3),
        ),
        (
            lambda: LatentAttention.initialize("m", 9, 2, 3, 2, 1e4, None, SplitMix64(0)),
            LayerError("heads-do-not-divide", width=9, heads=2),
        ),
        (
            lambda: rotate(TAPE, constant([[1.7e308, 1.7e308]] * 2), 0, Rope(1e4)),
            AutogradError("non-finite-forward", operation="rope", index=3, value=math.inf),
        ),
        (
            lambda: diagonal_scan(TAPE, constant([[[1e308], [1e308]]]), *(leaf([v]) for v in (1.0, 1.0, 1.0, 0.0))),
            AutogradError("non-finite-forward", operation="diagonal scan", index=1, value=math.inf),
        ),
    ],
)
def test_what_is_refused(operation: Callable[[], object], expected: CaiReferenceError) -> None:
    """With the values; overflow is an error and not a warning."""
    with raises(expected):
        operation()


# Layers.


def test_dynamic_tanh_by_hand() -> None:
    """γ 2 and −1, β 1 and 0, α ½, at 1: multiplied before, added after."""
    norm = DynamicTanh(leaf([2.0, -1.0]), leaf([1.0, 0.0]), leaf([0.5]))
    assert [[2.0 * half() + 1.0, -half()]] == norm(TAPE, constant([[1.0, 1.0]])).value.tolist()


def test_the_second_half_of_the_slab_is_the_gate() -> None:
    """A slab of 3 and 0 gives 0, a slab of 0 and 5 gives 0, a slab of 2 and 1000 gives 2000."""
    for first, second, expected in ((3.0, 0.0, 0.0), (0.0, 5.0, 0.0), (2.0, 1000.0, 2000.0), (2.0, -1000.0, 0.0)):
        layer = FeedForward(dense([[first, second]], [0.0, 0.0]), dense([[1.0]], [0.0]))
        assert [[expected]] == layer(TAPE, constant([[1.0]])).value.tolist()


def test_token_shift_by_hand() -> None:
    """A quarter of the current token and three quarters of the one before, which is zero at first."""
    assert [[[1.0], [5.0]]] == TokenShift(leaf([0.25]))(TAPE, constant([[[4.0], [8.0]]])).value.tolist()


def test_position_zero_is_not_turned() -> None:
    """The angle is 0 for every pair."""
    x = [[1.0, -2.0, 3.0, 4.0]]
    assert x == rotate(TAPE, constant(x), 0, Rope(1e4)).value.tolist()


@pytest.mark.parametrize("start", [1, 3, 3000])
def test_adjacent_pairs_turn_counter_clockwise(start: int) -> None:
    """Width 4 and base 100: the pairs turn by p and p/10, from the start position on."""
    x = constant([[1.0, 0.0, 0.0, 1.0]] * 2)
    expected = [
        value for p in (start, start + 1) for value in (math.cos(p), math.sin(p), -math.sin(p / 10), math.cos(p / 10))
    ]
    assert pytest.approx(expected, abs=1e-12) == rotate(TAPE, x, start, Rope(100.0)).value.ravel().tolist()


def test_rotations_are_made_once_and_cannot_be_written_to() -> None:
    """Sessions ask for the same tables again and again."""
    first, again = (rotation(STRICT, 7, 2, 4, 100.0) for _ in range(2))
    assert first.cosines.tobytes() == again.cosines.tobytes()
    for table in (first.cosines, first.sines):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 0.0


# Groups.


@pytest.mark.parametrize(
    ("widths", "least", "expected"),
    [
        ((128, 128), 16, 8),
        ((128, 1024), 16, 8),
        ((512, 128), 16, 32),
        ((128, 3000), 16, 8),
        ((128, 256), 16, 8),
        ((12, 8), 2, 4),
        ((8, 11), 2, 1),
        ((7, 5), 1, 1),
        ((8, 8), 9, 1),
        ((12, 18), 1, 6),
        ((12, 18), 4, 3),
        ((6, 4), 1, 2),
    ],
)
def test_the_number_of_groups(widths: tuple[int, int], least: int, expected: int) -> None:
    """The largest common divisor that leaves each group enough inputs; the first four are published."""
    assert expected == group_count(*widths, least)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 3, 1, 4, 2, 5]), (3, [0, 2, 4, 1, 3, 5]), (6, [0, 1, 2, 3, 4, 5])],
)
def test_interleaving_transposes(step: int, expected: list[int]) -> None:
    """Six features, laid out as `step` rows, are read column by column."""
    assert expected == interleaving(6, step)


def test_interleaving_follows_the_published_formula() -> None:
    """Feature i goes to ((i·s) mod D + (i·s) div D) mod D, for every divisor of 24."""
    for step in (1, 2, 3, 4, 6, 8, 12, 24):
        sources = interleaving(24, step)
        assert list(range(24)) == [sources[((i * step) % 24 + (i * step) // 24) % 24] for i in range(24)]


def grouped(weights: list[list[list[float]]], bias: list[float]) -> GroupedLinear:
    """Return a grouped map of given weights [groups, inputs, outputs]."""
    return GroupedLinear(leaf(weights), leaf(bias))


def test_a_stack_that_widens_only_shuffles() -> None:
    """Two inputs in two groups give four outputs, and the middle two change places."""
    first = grouped([[[1.0, 2.0]], [[3.0, 4.0]]], [0.0, 0.0, 0.0, 0.5])
    x = constant([[10.0, 100.0]])
    assert [[10.0, 20.0, 300.0, 400.5]] == GroupedStack(first, None, False)(TAPE, x).value.tolist()
    assert [[10.0, 300.0, 20.0, 400.5]] == GroupedStack(first, None, True)(TAPE, x).value.tolist()


def test_the_second_map_reads_the_shuffled_and_adds_the_unshuffled() -> None:
    """With the first the identity, the second sums each pair of shuffled neighbours; then the first is added."""
    identity = [[[1.0, 0.0], [0.0, 1.0]]] * 2
    first, second = grouped(identity, [0.0] * 4), grouped([[[1.0, 1.0], [1.0, 1.0]]] * 2, [0.0] * 4)
    x = constant([[1.0, 2.0, 30.0, 40.0]])
    assert [[32.0, 33.0, 72.0, 82.0]] == GroupedStack(first, second, True)(TAPE, x).value.tolist()


def test_which_stacks_mix() -> None:
    """A second map where inputs are at least as many as outputs; never before a vocabulary; never for one group."""
    generator = SplitMix64(0)
    kinds = {
        (128, 128, True): (8, True, True),
        (128, 1024, True): (8, True, False),
        (512, 128, True): (32, True, True),
        (128, 3000, False): (8, False, False),
        (8, 11, True): (1, False, False),
    }
    for (inputs, outputs, mix), expected in kinds.items():
        stack = project("p", inputs, outputs, 16 if inputs > 8 else 2, generator, mix=mix)
        assert isinstance(stack, GroupedStack)
        assert expected == (stack.first.groups, stack.interleaved, stack.second is not None)
    assert isinstance(project("p", 8, 8, None, generator), Dense)
