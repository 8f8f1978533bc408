"""The outputs of every class of layers, compared with its formula written out value by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest

import support_net_formulas as formula
from cai_neural_api.net.graph import Net
from cai_neural_api.net.making import WITH_WEIGHTS, WITHOUT_WEIGHTS
from cai_neural_api.net.structure import RULES, LayerSpec
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from support_cai_block import CaiConfiguration, build_cai_example
from support_net_formulas import Rows
from support_net_graph import attention, convolution, drawn, grouped, source, spec, values, weights_of

TOKENS: Final = 5
DEPTH: Final = 6
CONVOLUTION: Final = "PointwiseConvLinear"

Expected = Callable[[Net, Rows], Rows]


def learned(function: Callable[..., Rows], *arguments: object) -> Expected:
    """Apply a formula to what layer 1 has learned: its weights, its biases, and what else it takes."""
    return lambda net, x: function(x, weights_of(net, 1)[0][0], weights_of(net, 1)[1], *arguments)


def vectors(function: Callable[..., Rows]) -> Expected:
    """Apply a formula to the vectors of layer 1."""
    return lambda net, x: function(x, *(vector for (vector,) in weights_of(net, 1)[0]))


def unbiased(net: Net, x: Rows) -> Rows:
    """Convolve without the biases that are stored."""
    return formula.convolve(x, weights_of(net, 1)[0][0], [0.0] * DEPTH)


def unbiased_groups(net: Net, x: Rows) -> Rows:
    """Convolve in groups without the biases that are stored."""
    return formula.convolve_groups(x, weights_of(net, 1)[0][0], [0.0] * DEPTH, 2)


def rectified(net: Net, x: Rows) -> Rows:
    """Convolve, then cut at 0."""
    weights, biases = weights_of(net, 1)
    return formula.relu(formula.convolve(x, weights[0], biases))


LAYERS: Final[dict[str, tuple[LayerSpec, Expected]]] = {
    "negation": (spec("Negate", 0, number=-1.0), lambda net, x: [[-value for value in row] for row in x]),
    "convolution": (convolution(0, 4), learned(formula.convolve)),
    "convolution, bias suppressed": (convolution(0, DEPTH, suppressed=1), unbiased),
    "rectified convolution": (convolution(0, 7, kind="PointwiseConvReLU"), rectified),
    "one group": (grouped(0, 4, 1), learned(formula.convolve_groups, 1)),
    "two groups": (grouped(0, 8, 2), learned(formula.convolve_groups, 2)),
    "three groups": (grouped(0, 3, 3), learned(formula.convolve_groups, 3)),
    "two groups, bias suppressed": (grouped(0, DEPTH, 2, suppressed=1), unbiased_groups),
    "interleave by 1": (spec("InterleaveChannels", 0, (1,)), lambda net, x: x),
    "interleave by 2": (spec("InterleaveChannels", 0, (2,)), lambda net, x: formula.interleave(x, 2)),
    "interleave by 3": (spec("InterleaveChannels", 0, (3,)), lambda net, x: formula.interleave(x, 3)),
    "interleave by the depth": (spec("InterleaveChannels", 0, (6,)), lambda net, x: x),
    "softmax": (spec("PointwiseSoftMax", 0), lambda net, x: formula.softmax(x)),
    "softmax that passes the gradient": (spec("PointwiseSoftMax", 0, (1,)), lambda net, x: formula.softmax(x)),
    "masked softmax": (spec("PointwiseSoftMax", 0, (0, 1)), lambda net, x: formula.masked_softmax(x)),
    "dynamic tanh": (spec("DyT", 0), vectors(formula.dyt)),
    "SwiGLU": (spec("SwiGLU", 0), lambda net, x: formula.swiglu(x)),
    "ReLU": (spec("ReLU", 0), lambda net, x: formula.relu(x)),
    "signed square root": (spec("SignedSquareRoot1", 0), lambda net, x: formula.signed_root(x)),
    "neighbouring channels": (spec("SplitChannels", 0, listed=(2, 3, 4)), lambda net, x: formula.split(x, (2, 3, 4))),
    "scattered channels": (spec("SplitChannels", 0, listed=(5, 0, 3)), lambda net, x: formula.split(x, (5, 0, 3))),
    "a channel twice": (spec("SplitChannels", 0, listed=(1, 1, 0)), lambda net, x: formula.split(x, (1, 1, 0))),
    "sum": (spec("Sum", 0, listed=(0, 0, 0)), lambda net, x: formula.add(x, x, x)),
    "concatenation": (spec("DeepConcat", 0, listed=(0, 0)), lambda net, x: formula.concatenate(x, x)),
    "token shift": (spec("TokenShift", 0), vectors(formula.shift)),
    "recurrence": (spec("DiagonalSSM", 0), vectors(formula.recur)),
    "rotary": (spec("RotaryEmbedding", 0, number=10000.0), lambda net, x: formula.rotate(x, 10000.0)),
    "rotary with another base": (spec("RotaryEmbedding", 0, number=20.0), lambda net, x: formula.rotate(x, 20.0)),
    "attention": (attention(0, 2), lambda net, x: formula.attend(x, 2)),
    "attention to all": (attention(0, 2, causal=0), lambda net, x: formula.attend(x, 2, causal=False)),
    "attention to itself": (attention(0, 2, window=1), lambda net, x: formula.attend(x, 2, window=1)),
    "attention in a window": (attention(0, 2, window=3), lambda net, x: formula.attend(x, 2, window=3)),
    "attention in a window that hides nothing later": (
        attention(0, 2, causal=0, window=2),
        lambda net, x: formula.attend(x, 2, causal=False, window=2),
    ),
    "products": (spec("DotProducts", 0, (0, 0, 0)), lambda net, x: formula.multiply(x, x, masked=False)),
    "masked products": (spec("DotProducts", 0, (0, 0, 1)), lambda net, x: formula.multiply(x, x, masked=True)),
    "transpose": (spec("TransposeXD", 0), lambda net, x: formula.transpose(x)),
}


class TestOneLayer:
    """A layer on values that no embedding made."""

    @pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda each: each.identifier.split("/")[0])
    @pytest.mark.parametrize("name", LAYERS)
    def test_it_computes_its_formula(self, name: str, arithmetic: Arithmetic) -> None:
        """For both examples of a batch, to a few ULP."""
        layer, expected = LAYERS[name]
        net = drawn([source(TOKENS, DEPTH), layer])
        batch = values(2, TOKENS, DEPTH)
        found = net.run(arithmetic, batch).output
        for example, rows in zip(found, batch, strict=True):
            np.testing.assert_allclose(example, np.array(expected(net, rows.tolist())), rtol=1e-14, atol=1e-14)

    def test_the_drawn_values_reach_every_case(self) -> None:
        """Values beyond ±1, within, negative and positive ones."""
        drawn_values = values(2, TOKENS, DEPTH)
        for part in (drawn_values < -1.0, drawn_values > 1.0, np.abs(drawn_values) < 1.0):
            assert np.count_nonzero(part) > 5

    def test_all_classes_of_the_structure_have_a_formula(self) -> None:
        """Those that learn and those that do not are all that a file may name."""
        assert set(RULES) == set(WITH_WEIGHTS) | set(WITHOUT_WEIGHTS)
        assert set() == set(WITH_WEIGHTS) & set(WITHOUT_WEIGHTS)

    def test_every_class_is_compared(self) -> None:
        """The embedding and the input have tests of their own."""
        compared = {layer.kind for layer, _ in LAYERS.values()}
        assert {"TNNetInput", "TNNetEmbedding"} == set(RULES) - compared


class TestEmbedding:
    """Ids become rows of the table."""

    def rows(self, ids: Sequence[float], encodes_zero: int = 0) -> tuple[Rows, Rows]:
        """Return the table, and the rows of some ids."""
        net = drawn([source(len(ids)), spec("Embedding", 0, (11, 3, encodes_zero), number=0.02)])
        (table,), _ = weights_of(net, 1)
        return table, net.run(STRICT, [ids]).output[0].tolist()

    def test_an_id_is_its_row(self) -> None:
        """In the order of the ids."""
        table, rows = self.rows([4, 10, 1, 4])
        assert [table[4], table[10], table[1], table[4]] == rows

    def test_id_0_is_the_zero_vector(self) -> None:
        """Its row is stored and never read; so are negative ids, however far."""
        table, rows = self.rows([0, 3, -1, -7.6, -1e300])
        assert any(table[0])
        assert [[0.0] * 3, table[3], [0.0] * 3, [0.0] * 3, [0.0] * 3] == rows

    def test_a_layer_may_encode_zero(self) -> None:
        """Then row 0 is read; negative ids are still nothing."""
        table, rows = self.rows([0, -1], encodes_zero=1)
        assert [table[0], [0.0] * 3] == rows

    def test_ids_are_rounded_to_the_nearest_and_ties_to_even(self) -> None:
        """2.5 is 2, 3.5 is 4, half is nothing, and 10.5 is the last row of eleven."""
        table, rows = self.rows([2.5, 3.5, 0.5, 6.7, 10.5])
        assert [table[2], table[4], [0.0] * 3, table[7], table[10]] == rows


class TestSoftmax:
    """Rows of probabilities, and what is none."""

    def test_a_depth_of_1_passes_unchanged(self) -> None:
        """It is no softmax, which would give 1."""
        net = drawn([source(3, 1), spec("PointwiseSoftMax", 0)])
        assert [[[5.0], [-2.0], [0.25]]] == net.run(STRICT, [[5.0, -2.0, 0.25]]).output.tolist()

    def test_a_masked_channel_does_not_count_however_large_it_is(self) -> None:
        """Row 0 sees its first channel alone, so that the maximum of the others cannot make it vanish."""
        net = drawn([source(2, 2), spec("PointwiseSoftMax", 0, (0, 1))])
        output = net.run(STRICT, [[[-9000.0, 9000.0], [0.0, 0.0]]]).output.tolist()
        assert [[[1.0, 0.0], [0.5, 0.5]]] == output

    def test_exponents_end_at_minus_4000(self) -> None:
        """Where exp is 0 in double precision already, so that nothing of it is seen, and nothing overflows."""
        net = drawn([source(1, 3), spec("PointwiseSoftMax", 0)])
        assert [[[0.0, 1.0, 0.0]]] == net.run(STRICT, [[[-1e300, 5000.0, 4000.0]]]).output.tolist()

    def test_two_channels_by_hand(self) -> None:
        """The logarithm of 3 against 0 is three quarters."""
        net = drawn([source(1, 2), spec("PointwiseSoftMax", 0)])
        np.testing.assert_allclose(net.run(STRICT, [[[math.log(3.0), 0.0]]]).output, [[[0.75, 0.25]]], rtol=1e-15)


class TestPositions:
    """Rotary channels by hand."""

    def test_a_pair_is_turned_counter_clockwise(self) -> None:
        """Position 1, channels (1, 0): (cos 1, sin 1); position 0 turns nothing."""
        net = drawn([source(2, 2), spec("RotaryEmbedding", 0, number=10000.0)])
        found = net.run(STRICT, [[[1.0, 0.0], [1.0, 0.0]]]).output[0]
        np.testing.assert_allclose(found, [[1.0, 0.0], [math.cos(1.0), math.sin(1.0)]], rtol=1e-15)

    def test_the_second_pair_is_slower(self) -> None:
        """Of four channels by the root of the base: 100^(−2/4) is a tenth."""
        net = drawn([source(2, 4), spec("RotaryEmbedding", 0, number=100.0)])
        found = net.run(STRICT, [[[0.0] * 4, [0.0, 0.0, 0.0, 1.0]]]).output[0, 1]
        np.testing.assert_allclose(found, [0.0, 0.0, -math.sin(0.1), math.cos(0.1)], rtol=1e-14)


def cai_block(net: Net, x: Rows, first: int, heads: int) -> Rows:
    """Compute a CAI block by its formula; `first` is its first layer, convolutions come in the order of creation."""
    root = formula.signed_root
    convolutions = [
        index for index in range(first, len(net.specs)) if net.specs[index].kind.startswith("TNNetPointwiseConv")
    ]

    def project(number: int, rows: Rows) -> Rows:
        (weights,), biases = weights_of(net, convolutions[number])
        return formula.convolve(rows, weights, [0.0] * len(biases))

    query, key, value = (root(project(number, x)) for number in range(3))
    width = len(x[0]) // heads
    outputs = []
    for head in range(heads):
        channels = range(head * width, (head + 1) * width)
        q, k, v = (formula.split(part, channels) for part in (query, key, value))
        output = []
        for b in range(len(x)):
            (scores,) = root([[formula.dot(q[a], k[b]) for a in range(b + 1)]])
            output.append([sum(scores[a] * v[a][c] for a in range(b + 1)) for c in range(width)])
        outputs.append(output)
    mixed = root(project(3, root(formula.concatenate(*outputs))))
    residual = root(formula.add(mixed, x))
    inner = root(formula.relu(project(4, residual)))
    return root(formula.add(root(project(5, inner)), residual))


class TestCaiBlock:
    """The library's older block: no softmax, no scale, no bias, keys choose the row."""

    @pytest.mark.parametrize("tokens", [1, 2, 5])
    def test_the_graph_computes_the_direct_formula(self, tokens: int) -> None:
        """For prefixes of the context, too: tokens that become channels are read by no weight."""
        net = drawn(build_cai_example(CaiConfiguration(9, 5, 8, heads=2, intermediate=10, blocks=1)))
        run = net.run(STRICT, [[3, 8, 1, 5, 2][:tokens]])
        block = next(index for index, layer in enumerate(net.specs) if layer.kind.startswith("TNNetPointwiseConv"))
        ends = [index for index, layer in enumerate(net.specs) if layer.kind == "TNNetSignedSquareRoot1"]
        expected = cai_block(net, run.outputs[block - 1][0].tolist(), block, heads=2)
        assert np.abs(expected).max() > 1.0
        np.testing.assert_allclose(run.outputs[ends[-1]][0], expected, rtol=1e-12, atol=1e-13)

    def test_a_token_sees_no_later_one(self) -> None:
        """Changing the last token changes its own row alone."""
        net = drawn(build_cai_example(CaiConfiguration(9, 4, 8, heads=2, intermediate=10, blocks=2)))
        first, second = net.run(STRICT, [[3, 8, 1, 5], [3, 8, 1, 6]]).output
        assert first[:3].tobytes() == second[:3].tobytes()
        assert first[3].tobytes() != second[3].tobytes()
