"""Gradients of nets: finite differences for every class, and what the library does beside the formulas.

Every net here starts with an embedding whose ids differ, so that the gradient of its table is the gradient of the
layer's input.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from cai_neural_api.errors import NetError
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import EXACT, GradientRules, Learned
from cai_neural_api.net.structure import LayerSpec
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from support_cai_block import CaiConfiguration, build_cai_example
from support_net_graph import attention, convolution, drawn, grouped, source, spec, values
from support_net_models import TINY, layers_of
from support_refusals import raises

TOKENS: Final = 4
DEPTH: Final = 6
IDS: Final = [[3, 1, 7, 5], [8, 2, 6, 4]]


def embedding(depth: int = DEPTH) -> LayerSpec:
    """Describe an embedding of nine ids."""
    return spec("Embedding", 0, (9, depth), number=0.02)


def after_embedding(*layers: LayerSpec, depth: int = DEPTH) -> Net:
    """Make a net of an embedding and more."""
    return drawn([source(TOKENS), embedding(depth), *layers])


def exact(net: Net, gradient: Array, rules: GradientRules = EXACT) -> tuple[Learned | None, ...]:
    """Return the gradients of both examples."""
    return net.gradients(FAST, net.run(FAST, IDS), gradient, rules)


def learned(gradients: tuple[Learned | None, ...], layer: int) -> Learned:
    """Return the gradient of one layer, which must be there."""
    found = gradients[layer]
    assert found is not None
    return found


def assert_finite_differences(net: Net, most: int = 24) -> None:
    """Compare gradients of Σ g · output with central differences, for a drawn g; at most so many of an array."""
    step = 2.0**-17
    toward = values(*net.run(FAST, IDS).output.shape, seed=23)
    found = exact(net, toward)
    for index, layer in enumerate(net.layers):
        if layer.learned is None:
            assert found[index] is None
            continue
        for array, gradient in zip(layer.learned.arrays, learned(found, index).arrays, strict=True):
            scale = max(1.0, float(np.abs(gradient).max()))
            for place in list(np.ndindex(array.shape))[:: -(-array.size // most)]:
                before = array[place]
                sides = []
                for change in (step, -step):
                    array[place] = before + change
                    sides.append(float(np.sum(toward * net.run(FAST, IDS).output)))
                array[place] = before
                expected = (sides[0] - sides[1]) / (2.0 * step)
                assert abs(expected - gradient[place]) < 2e-8 * scale, (index, place)


LAYERS: Final[dict[str, list[LayerSpec]]] = {
    "convolution": [convolution(1, 5)],
    "convolution, bias suppressed": [convolution(1, 5, suppressed=1)],
    "rectified convolution": [convolution(1, 7, kind="PointwiseConvReLU")],
    "grouped convolution": [grouped(1, 8, 2)],
    "grouped convolution, bias suppressed": [grouped(1, 3, 3, suppressed=1)],
    "interleave": [spec("InterleaveChannels", 1, (3,))],
    "softmax": [spec("PointwiseSoftMax", 1)],
    "masked softmax": [spec("PointwiseSoftMax", 1, (0, 1))],
    "dynamic tanh": [spec("DyT", 1)],
    "SwiGLU": [spec("SwiGLU", 1)],
    "ReLU": [spec("ReLU", 1)],
    "signed square root": [convolution(1, 6), spec("SignedSquareRoot1", 2)],
    "negation": [spec("Negate", 1, number=-1.0)],
    "neighbouring channels": [spec("SplitChannels", 1, listed=(1, 2))],
    "scattered channels": [spec("SplitChannels", 1, listed=(4, 0))],
    "a channel twice": [spec("SplitChannels", 1, listed=(4, 0, 4))],
    "sum": [convolution(1, 6), spec("Sum", 2, listed=(2, 1, 2))],
    "concatenation": [convolution(1, 2), spec("DeepConcat", 2, listed=(1, 2, 1))],
    "many readers of one layer": [
        spec("SplitChannels", 1, listed=(0, 1)),
        spec("Negate", 1, number=-1.0),
        spec("SplitChannels", 1, listed=(1, 5)),
        spec("DeepConcat", 4, listed=(4, 3, 2, 1)),
    ],
    "token shift": [spec("TokenShift", 1)],
    "recurrence": [spec("DiagonalSSM", 1)],
    "rotary": [spec("RotaryEmbedding", 1, number=50.0)],
    "attention": [attention(1, 2)],
    "attention to all": [attention(1, 2, causal=0)],
    "attention in a window": [attention(1, 2, window=2)],
    "attention in a window, not causal": [attention(1, 2, causal=0, window=2)],
    "products": [convolution(1, 6), spec("DotProducts", 2, (1, 2, 0))],
    "masked products": [convolution(1, 6), spec("DotProducts", 2, (2, 1, 1))],
    "transpose": [spec("TransposeXD", 1), spec("DotProducts", 2, (2, 2, 0))],
    "Brier heads": [
        convolution(1, 4),
        spec("PointwiseSoftMax", 2),
        convolution(1, 4),
        spec("PointwiseSoftMax", 4),
        spec("DeepConcat", 5, listed=(3, 5)),
    ],
}


class TestFiniteDifferences:
    """Whatever a layer learns, and what it hands back to its input."""

    @pytest.mark.parametrize("name", LAYERS)
    def test_every_class_agrees(self, name: str) -> None:
        """To the error of central differences."""
        assert_finite_differences(after_embedding(*LAYERS[name]))

    def test_a_whole_cai_block_agrees(self) -> None:
        """Through products, transposes and signed roots."""
        specs = build_cai_example(CaiConfiguration(9, TOKENS, 4, heads=2, intermediate=5, blocks=1))
        assert_finite_differences(drawn(specs[:-1]), most=5)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("name", TINY)
    def test_whole_models_agree(self, name: str) -> None:
        """Up to the logits where the softmax passes its gradient, and with all heads where it does not."""
        specs = layers_of(TINY[name])
        net = drawn(specs if specs[-1].kind == "TNNetDeepConcat" else specs[:-1])
        assert_finite_differences(net, most=16)


class TestSoftmax:
    """The two ways back."""

    def test_the_straight_one_passes_what_it_is_given(self) -> None:
        """So that p − y is the gradient of the cross-entropy."""
        toward = values(2, TOKENS, DEPTH)
        found = exact(after_embedding(spec("PointwiseSoftMax", 1, (1,))), toward)
        table = learned(found, 1).weights[0]
        for ids, rows in zip(IDS, toward, strict=True):
            assert rows.tolist() == table[ids].tolist()

    def test_straight_and_exact_agree_about_the_cross_entropy(self) -> None:
        """The full Jacobian of −y/p is p − y."""
        target = np.eye(DEPTH)[[[0, 3, 3, 1], [5, 2, 0, 0]]]
        straight, full = (after_embedding(spec("PointwiseSoftMax", 1, (skip,))) for skip in (1, 0))
        p = full.run(FAST, IDS).output
        first = learned(exact(straight, p - target), 1).weights[0]
        second = learned(exact(full, -target / p), 1).weights[0]
        np.testing.assert_allclose(first, second, atol=1e-15)

    def test_a_depth_of_1_passes_either_way(self) -> None:
        """Nothing was done forwards."""
        toward = values(2, TOKENS, 1)
        for skip in (0, 1):
            table = learned(exact(after_embedding(spec("PointwiseSoftMax", 1, (skip,)), depth=1), toward), 1).weights[0]
            assert toward[0].tolist() == table[IDS[0]].tolist()


class TestRelu:
    """The derivative at exactly 0 is 1, in the activation and in the rectified convolution."""

    def test_the_activation_passes_at_0(self) -> None:
        """And not below."""
        net = after_embedding(spec("ReLU", 1), depth=2)
        table = net.layers[1].learned
        assert table is not None
        table.weights[0][:] = 0.0
        table.weights[0][3], table.weights[0][8] = -0.0, -(2.0**-1074)
        found = learned(exact(net, np.ones((2, TOKENS, 2))), 1).weights[0]
        assert [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0] == found[:, 0].tolist()

    def test_the_rectified_convolution_passes_at_0(self) -> None:
        """Weights of zero make every sum the bias: 0, and one just below."""
        net = after_embedding(convolution(1, 2, kind="PointwiseConvReLU"), depth=1)
        known = net.layers[2].learned
        assert known is not None
        known.weights[0][:] = 0.0
        known.biases[:] = 0.0, -(2.0**-1074)
        assert [8.0, 0.0] == learned(exact(net, np.ones((2, TOKENS, 2))), 2).biases.tolist()


class TestBiases:
    """Where none is added, none is learned, unless the library's rule is asked for."""

    @pytest.mark.parametrize("layer", [convolution(1, 4, suppressed=1), grouped(1, 4, 2, suppressed=1)])
    def test_a_suppressed_bias_has_no_gradient(self, layer: LayerSpec) -> None:
        """It is stored all the same; the library adds up the gradient that it would have."""
        net, ones = after_embedding(layer), np.ones((2, TOKENS, 4))
        assert [0.0] * 4 == learned(exact(net, ones), 2).biases.tolist()
        assert [2.0 * TOKENS] * 4 == learned(exact(net, ones, GradientRules(suppressed=True)), 2).biases.tolist()

    def test_tables_and_vectors_have_unused_biases(self) -> None:
        """One a neuron, of gradient zero."""
        net = after_embedding(spec("DyT", 1), spec("DiagonalSSM", 2), spec("TokenShift", 3))
        found = exact(net, np.ones((2, TOKENS, DEPTH)))
        assert [[0.0], [0.0] * 3, [0.0] * 4, [0.0]] == [learned(found, layer).biases.tolist() for layer in range(1, 5)]


class TestLimit:
    """The gradient that enters a convolution or a sum is scaled down to at most 100, an example at a time."""

    RULES: Final = GradientRules(limit=100.0)

    def toward(self, channels: int) -> Array:
        """Return gradients up to 400 in the first example, and up to 100 in the second."""
        gradient = np.zeros((2, TOKENS, channels))
        gradient[0, 0], gradient[0, 2] = -400.0, 50.0
        gradient[1, 1], gradient[1, 3] = 100.0, -25.0
        return gradient

    @pytest.mark.parametrize("kind", ["PointwiseConvLinear", "PointwiseConvReLU"])
    def test_a_convolution_scales_the_example_that_is_beyond(self, kind: str) -> None:
        """−400 becomes −100 and 50 becomes 12.5; the other example keeps 100 and −25."""
        net = after_embedding(convolution(1, 3, kind=kind))
        known = net.layers[2].learned
        assert known is not None
        known.biases[:] = 1000.0
        found = learned(exact(net, self.toward(3), self.RULES), 2)
        assert [-100.0 + 12.5 + 100.0 - 25.0] * 3 == found.biases.tolist()

    def test_a_sum_scales_what_it_hands_to_every_input(self) -> None:
        """To each of the three, which here are one layer."""
        net = after_embedding(spec("Sum", 1, listed=(1, 1, 1)))
        table = learned(exact(net, self.toward(DEPTH), self.RULES), 1).weights[0]
        assert [-300.0, 0.0, 37.5, 0.0] == table[IDS[0], 0].tolist()
        assert [0.0, 300.0, 0.0, -75.0] == table[IDS[1], 0].tolist()

    def test_a_grouped_convolution_does_not(self) -> None:
        """The library's has no limit."""
        found = learned(exact(after_embedding(grouped(1, 4, 2)), self.toward(4), self.RULES), 2)
        assert [-400.0 + 50.0 + 100.0 - 25.0] * 4 == found.biases.tolist()

    def test_exact_rules_do_not(self) -> None:
        """The limit is the library's, not the formula's."""
        found = learned(exact(after_embedding(convolution(1, 4)), self.toward(4)), 2)
        assert [-400.0 + 50.0 + 100.0 - 25.0] * 4 == found.biases.tolist()


class TestEmbedding:
    """Who takes the gradient of a place."""

    def test_an_id_takes_the_gradients_of_all_its_places(self) -> None:
        """And id 0 none."""
        net = drawn([source(3), embedding(1)])
        run = net.run(FAST, [[4, 0, 4], [4, 2, 0]])
        toward = np.array([[[1.0], [2.0], [4.0]], [[8.0], [16.0], [32.0]]])
        table = learned(net.gradients(FAST, run, toward), 1).weights[0]
        assert [0.0, 0.0, 16.0, 0.0, 13.0, 0.0, 0.0, 0.0, 0.0] == table[:, 0].tolist()

    def test_id_0_learns_where_it_is_encoded(self) -> None:
        """Then it is an id like any other."""
        net = drawn([source(2), spec("Embedding", 0, (3, 1, 1), number=0.02)])
        run = net.run(FAST, [[0, 2]])
        table = learned(net.gradients(FAST, run, np.array([[[1.0], [2.0]]])), 1).weights[0]
        assert [1.0, 0.0, 2.0] == table[:, 0].tolist()

    def test_rules_may_name_other_rows(self) -> None:
        """As the library's memory of ids does; 0 stands for none."""
        net = drawn([source(3), embedding(1)])
        run = net.run(FAST, [[4, 0, 0]])
        rules = GradientRules(rows=np.array([[4, 7, 0]], np.intp))
        table = learned(net.gradients(FAST, run, np.array([[[1.0], [2.0], [4.0]]]), rules), 1).weights[0]
        assert [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0] == table[:, 0].tolist()


class TestBatches:
    """Gradients are sums over the examples."""

    def test_a_batch_is_the_sum_of_its_examples(self) -> None:
        """With the limit, too, which is an example's own."""
        net = drawn(layers_of(TINY["hybrid"])[:-1])
        rules = GradientRules(limit=1.0)
        toward = values(2, 7, 13)
        ids = [[3, 1, 0, 5, 2, 2, 12], [8, 2, 6, 4, 0, 0, 0]]
        both = net.gradients(FAST, net.run(FAST, ids), toward, rules)
        single = [net.gradients(FAST, net.run(FAST, ids[k : k + 1]), toward[k : k + 1], rules) for k in range(2)]
        for together, first, second in zip(both, *single, strict=True):
            if together is None:
                assert first is None and second is None
                continue
            for total, one, other in zip(
                together.arrays, learned((first,), 0).arrays, learned((second,), 0).arrays, strict=True
            ):
                np.testing.assert_allclose(total, one + other, rtol=1e-11, atol=1e-12)

    def test_a_layer_that_nothing_reads_has_gradient_zero(self) -> None:
        """It learns nothing, and is not forgotten."""
        net = after_embedding(convolution(1, 2), convolution(1, 3))
        found = learned(exact(net, np.ones((2, TOKENS, 3))), 2)
        assert [(2, DEPTH), (2,)] == [array.shape for array in found.arrays]
        assert not any(array.any() for array in found.arrays)

    def test_gradients_change_nothing(self) -> None:
        """Neither the run nor the gradient that was given, so that both can be used again."""
        net = after_embedding(*LAYERS["many readers of one layer"])
        run = net.run(STRICT, IDS)
        toward = values(*run.output.shape)
        kept = [output.copy() for output in run.outputs], toward.copy()
        first = net.gradients(STRICT, run, toward, GradientRules(limit=0.5))
        second = net.gradients(STRICT, run, toward, GradientRules(limit=0.5))
        assert learned(first, 1).weights[0].tobytes() == learned(second, 1).weights[0].tobytes()
        assert all(np.array_equal(before, after) for before, after in zip(kept[0], run.outputs, strict=True))
        assert np.array_equal(kept[1], toward)

    def test_the_gradient_has_the_shape_of_the_output(self) -> None:
        """Else it is refused."""
        net = after_embedding(convolution(1, 3))
        with raises(NetError("wrong-gradient", given=(2, TOKENS, 4), expected=(2, TOKENS, 3))):
            exact(net, np.zeros((2, TOKENS, 4)))
