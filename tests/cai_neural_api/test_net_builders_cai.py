"""The older block of the library: the order of its layers, and what a net of them computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_neural_api.format import NetFile, Neuron
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_reference.arithmetic.instances import STRICT
from support_cai_block import CaiConfiguration, build_cai_example

Rows = list[list[float]]

SIZES = CaiConfiguration(vocabulary=9, context=5, width=4, heads=2, intermediate=6, blocks=1)


def root(x: float) -> float:
    """Return the signed square root of what is larger than 1."""
    return x if abs(x) <= 1 else math.copysign(math.sqrt(abs(x)), x)


def through(layer: tuple[Neuron, ...], rows: Rows) -> Rows:
    """Apply a convolution, biases included."""
    return [
        [neuron.bias + sum(w * x for w, x in zip(neuron.weights, row, strict=True)) for neuron in layer] for row in rows
    ]


def rooted(rows: Rows) -> Rows:
    """Apply the activation to every number."""
    return [[root(x) for x in row] for row in rows]


def added(first: Rows, second: Rows) -> Rows:
    """Add two sequences."""
    return [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(first, second, strict=True)]


def block_by_hand(x: Rows, convolutions: list[tuple[Neuron, ...]]) -> Rows:
    """Compute one block by its formulas; convolutions are Q, K, V, output, up, down."""
    query, key, value = (rooted(through(convolutions[place], x)) for place in range(3))
    part = SIZES.width // SIZES.heads
    mixed = [[0.0] * SIZES.width for _ in x]
    for head in range(SIZES.heads):
        channels = range(head * part, (head + 1) * part)
        for b in range(len(x)):
            for a in range(b + 1):
                score = root(sum(query[a][c] * key[b][c] for c in channels))
                for c in channels:
                    mixed[b][c] += score * value[a][c]
    attended = rooted(through(convolutions[3], rooted(mixed)))
    residual = rooted(added(attended, x))
    inner = [[max(0.0, value) for value in row] for row in through(convolutions[4], residual)]
    return rooted(added(rooted(through(convolutions[5], rooted(inner))), residual))


@pytest.fixture
def net() -> NetFile:
    """A net of one block with weights large enough for the root to matter."""
    drawn = initialize(build_cai_example(SIZES), MersenneTwister(77))
    scaled = tuple(
        tuple(Neuron(neuron.bias, neuron.weights * (40.0 if place == 1 else 2.0), neuron.shape) for neuron in layer)
        for place, layer in enumerate(drawn.neurons)
    )
    return NetFile(drawn.specs, scaled)


class TestOrder:
    """Which layer follows which."""

    def test_the_layers_of_one_block_stand_in_this_order(self) -> None:
        """Class, and the layers that it reads."""
        head = ["SplitChannels", "SplitChannels", "SplitChannels", "TransposeXD", "DotProducts", "SignedSquareRoot1"]
        conv, f = "PointwiseConvLinear", "SignedSquareRoot1"
        expected = ["Input", "Embedding", conv, conv, conv, f, f, f, *[*head, "DotProducts"] * 2]
        expected += ["DeepConcat", f, conv, f, "Sum", f, "PointwiseConvReLU", f, conv, f, "Sum", f]
        expected += [conv, conv, "PointwiseSoftMax"]
        specs = build_cai_example(SIZES)
        assert expected == [spec.kind.removeprefix("TNNet") for spec in specs]
        inputs = [spec.inputs for spec in specs]
        assert [(1,), (1,), (1,), (2,), (3,), (4,)] == inputs[2:8]
        assert [(5,), (6,), (7,), (10,), (8, 9), (12,), (11, 13)] == inputs[8:15]
        assert [(5,), (6,), (7,), (17,), (15, 16), (19,), (18, 20)] == inputs[15:22]
        assert [(14, 21), (22,), (23,), (24,), (25, 1), (26,), (27,), (28,), (29,), (30,), (31, 27)] == inputs[22:33]

    def test_biases_are_suppressed_in_blocks_only(self) -> None:
        """The two projections at the end have theirs."""
        specs = build_cai_example(SIZES)
        suppressed = [spec.integers[4] for spec in specs if "Conv" in spec.kind]
        assert [1] * 6 + [0, 0] == suppressed

    def test_only_products_of_queries_and_keys_are_causal(self) -> None:
        """The second product of each head sums over all tokens, of which later ones are zero."""
        products = [spec.integers[2] for spec in build_cai_example(SIZES) if spec.kind == "TNNetDotProducts"]
        assert [1, 0, 1, 0] == products


class TestValues:
    """What the layers compute together."""

    def test_a_net_computes_the_formulas_of_the_block(self, net: NetFile) -> None:
        """Against loops over plain numbers, with scores on both sides of 1."""
        ids = [3, 8, 1, 4, 3]
        table = net.neurons[1][0].weights.reshape(9, 4)
        convolutions = [layer for spec, layer in zip(net.specs, net.neurons, strict=True) if "Conv" in spec.kind]
        expected = block_by_hand([table[token].tolist() for token in ids], convolutions[:6])
        outputs = Net.from_file(net).run(STRICT, [ids]).outputs
        assert np.allclose(expected, outputs[33][0], rtol=0, atol=1e-12)
        scores = np.abs(outputs[12][0])
        assert float(np.max(scores)) > 1.0
        assert np.any((scores > 0.0) & (scores < 1.0))

    def test_a_later_token_changes_nothing_before_it(self, net: NetFile) -> None:
        """And changes its own row."""
        first, second = (Net.from_file(net).run(STRICT, [ids]).output[0] for ids in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 8]))
        assert np.array_equal(first[:4], second[:4])
        assert not np.array_equal(first[4], second[4])
