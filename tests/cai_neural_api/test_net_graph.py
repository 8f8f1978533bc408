"""A net as a whole: batches, files, copies, and what it refuses to be made of or to read."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from cai_neural_api.errors import GraphShapeError, NetError, NetFormatError
from cai_neural_api.format import NetFile, format_net, parse_net
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers import pointwise as channels
from cai_neural_api.net.layers.layer import Learned
from cai_neural_api.net.structure import LayerSpec
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.errors import CaiReferenceError
from support_cai_block import CaiConfiguration, build_cai_example
from support_net_format import EVERY_CLASS, net_text
from support_net_graph import attention, convolution, drawn, grouped, source, spec, values
from support_net_models import TINY, layers_of
from support_refusals import raises

IDS: Final = [[3, 1, 0, 5, 2, 2, 12], [8, 2, 6, 4, 0, 0, 0]]


class TestRuns:
    """Batches of sequences."""

    @pytest.mark.parametrize("name", TINY)
    def test_a_batch_gives_the_bits_of_its_examples(self, name: str) -> None:
        """In strict arithmetic, of every layer; padding is nothing special."""
        net = drawn(layers_of(TINY[name]))
        both = net.run(STRICT, IDS).outputs
        for example, ids in enumerate(IDS):
            alone = net.run(STRICT, [ids]).outputs
            for together, single in zip(both, alone, strict=True):
                assert np.ascontiguousarray(together[example]).tobytes() == np.ascontiguousarray(single[0]).tobytes()

    @pytest.mark.parametrize("name", ["hybrid", "futures", "draft"])
    def test_the_output_alone_is_that_of_a_run(self, name: str) -> None:
        """Bit by bit, although other outputs are forgotten on the way."""
        net = drawn(layers_of(TINY[name]))
        assert net.run(STRICT, IDS).output.tobytes() == net.output(STRICT, IDS).tobytes()

    def test_outputs_are_forgotten_once_they_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A chain of ten layers never holds more than its newest two."""
        held: list[weakref.ref[Array]] = []
        most = 0

        def negate(layer: object, arithmetic: object, inputs: Sequence[Array]) -> tuple[Array, tuple[()]]:
            nonlocal most
            output = -inputs[0]
            held.append(weakref.ref(output))
            most = max(most, sum(reference() is not None for reference in held))
            return output, ()

        monkeypatch.setattr(channels.Negate, "forward", negate)
        net = drawn([source(3, 2), *(spec("Negate", at, number=-1.0) for at in range(10))])
        x = values(1, 3, 2)
        assert net.output(STRICT, x).tolist() == x.tolist()
        assert (10, 2) == (len(held), most)

    def test_an_output_that_is_not_finite_names_its_layer(self) -> None:
        """The first whose output is not, in both ways to run."""
        net = drawn([source(2, 2), spec("Negate", 0, number=-1.0), convolution(1, 2), convolution(2, 2)])
        known = net.layers[2].learned
        assert known is not None
        known.biases[1] = np.inf
        for call in (net.run, net.output):
            with raises(NetError("non-finite-output", layer=2, kind="TNNetPointwiseConvLinear")):
                call(STRICT, values(1, 2, 2))

    def test_what_no_output_shows_is_not_refused(self) -> None:
        """An infinite number that a tanh takes back to 1 is as good as any."""
        net = drawn([source(1, 1), spec("DyT", 0)])
        known = net.layers[1].learned
        assert known is not None
        known.weights[2][:] = 2.0
        assert np.isfinite(net.run(STRICT, [[1e308]]).output).all()

    @pytest.mark.parametrize("shape", [(1, 0), (1, 8), (0, 7), (7,), (1, 7, 2), (1, 1, 7, 1)])
    def test_other_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        """No tokens, too many, no examples, or another number of axes."""
        net = drawn(layers_of(TINY["attention"]))
        stated = (*shape, 1) if len(shape) == 2 else shape
        with raises(NetError("wrong-input", context=7, depth=1, shape=stated)):
            net.run(STRICT, np.ones(shape))

    def test_ids_without_a_row_are_refused(self) -> None:
        """The library takes them for 0; NaN is none, and 12.5 rounds to even, to the last row of 13."""
        net = drawn(layers_of(TINY["draft"]))
        net.run(STRICT, [[12.5]])
        for token in (13.0, 12.6, 1e300, float("inf"), float("nan")):
            with raises(NetError("net-token-out-of-range", position=2, token=token, vocabulary=13)):
                net.run(STRICT, [[1.0, 2.0, 3.0], [1.0, 2.0, token]])

    def test_tokens_that_become_channels_cannot_be_fewer(self) -> None:
        """Where a convolution, or a choice, counts them; in a block that only multiplies they can."""
        for reader in (convolution(2, 3), spec("SplitChannels", 2, listed=(3,)), spec("DyT", 2), grouped(2, 2, 2)):
            net = drawn([source(4), spec("Embedding", 0, (9, 2), number=0.02), spec("TransposeXD", 1), reader])
            net.run(STRICT, [[1, 2, 3, 4]])
            with raises(NetError("fixed-length", tokens=3, context=4)):
                net.run(STRICT, [[1, 2, 3]])
        cai = drawn(build_cai_example(CaiConfiguration(9, 4, 4, heads=2, intermediate=3, blocks=1)))
        whole = cai.run(STRICT, [[1, 2, 3, 4]]).output[0]
        assert whole[:3].tobytes() == cai.run(STRICT, [[1, 2, 3]]).output[0].tobytes()


class TestFiles:
    """From a file and back."""

    def test_a_file_comes_back_byte_for_byte(self) -> None:
        """With a layer of every class."""
        text = net_text(EVERY_CLASS)
        assert text == format_net(Net.from_file(parse_net(text)).to_file())

    def test_a_net_shares_nothing_with_its_file_or_its_copy(self) -> None:
        """What one learns, the others do not."""
        file = parse_net(net_text(EVERY_CLASS))
        net = Net.from_file(file)
        twin = net.copy()
        before = format_net(twin.to_file())
        for layer in net.layers:
            if layer.learned is not None:
                for array in layer.learned.arrays:
                    array += 1.0
        assert before == format_net(file) == format_net(twin.to_file())
        assert before != format_net(net.to_file())

    def test_values_are_rounded_to_single_precision(self) -> None:
        """In the file, not in the net."""
        net = drawn([source(2, 1), convolution(0, 1)])
        known = net.layers[1].learned
        assert known is not None
        known.weights[0][:], known.biases[:] = 0.1, 1.0 / 3.0
        (neuron,) = net.to_file().neurons[1]
        assert (float(np.float32(0.1)), float(np.float32(1.0 / 3.0))) == (neuron.weights[0], neuron.bias)
        assert known.biases[0] == 1.0 / 3.0

    def test_biases_are_not_counted(self) -> None:
        """A table, a convolution, a norm and its α."""
        net = drawn([source(4), spec("Embedding", 0, (9, 2), number=0.02), convolution(1, 3), spec("DyT", 2)])
        assert 9 * 2 + 2 * 3 + (3 + 3 + 1) == net.weight_count

    def test_neurons_have_to_be_those_of_the_layers(self) -> None:
        """In number and in size."""
        file = drawn([source(2, 3), convolution(0, 2)]).to_file()
        (_, neurons) = file.neurons
        with raises(
            NetFormatError("neuron-count-mismatch", layer=1, kind="TNNetPointwiseConvLinear", expected=2, found=1)
        ):
            Net.from_file(NetFile(file.specs, ((), neurons[:1])))
        with raises(NetFormatError("neuron-count-mismatch", layer=0, kind="TNNetInput", expected=0, found=2)):
            Net.from_file(NetFile(file.specs, (neurons, neurons)))
        with raises(NetFormatError("weight-count-mismatch", layer=1, neuron=1, expected=3, found=2)):
            Net.from_file(NetFile(file.specs, ((), (neurons[0], replace(neurons[1], weights=np.zeros(2))))))
        with raises(NetFormatError("layer-count-mismatch", structure=2, data=1)):
            Net.from_file(NetFile(file.specs, ((),)))


GOOD: Final = Learned((np.zeros((2, 3)),), np.zeros(2))


class TestRefusals:
    """A net is not made of what does not fit; whatever is wrong is said by an error of nets."""

    @pytest.mark.parametrize(
        ("layer", "expected"),
        [
            (spec("LayerNorm", 0), GraphShapeError("unknown-layer-class", layer=1, kind="TNNetLayerNorm")),
            (
                spec("RotaryEmbedding", 0, number=10000.0),
                GraphShapeError(
                    "depth-does-not-fit",
                    layer=1,
                    kind="TNNetRotaryEmbedding",
                    depth=3,
                    needed="an even one, since pairs of channels are turned",
                ),
            ),
            (
                spec("SwiGLU", 0),
                GraphShapeError(
                    "depth-does-not-fit",
                    layer=1,
                    kind="TNNetSwiGLU",
                    depth=3,
                    needed="an even one, since one half gates the other",
                ),
            ),
            (
                spec("InterleaveChannels", 0, (2,)),
                GraphShapeError(
                    "depth-does-not-fit",
                    layer=1,
                    kind="TNNetInterleaveChannels",
                    depth=3,
                    needed="a multiple of the step 2",
                ),
            ),
            (
                attention(0, 2),
                GraphShapeError(
                    "depth-does-not-fit",
                    layer=1,
                    kind="TNNetScaledDotProductAttention",
                    depth=3,
                    needed="6, three times the d_k of 2",
                ),
            ),
            (
                spec("SplitChannels", 0, listed=(3,)),
                GraphShapeError("channel-out-of-range", layer=1, place=0, channel=3, depth=3),
            ),
            (
                spec("PointwiseSoftMax", 0, (1, 2)),
                NetFormatError(
                    "unsupported-option",
                    layer=1,
                    kind="TNNetPointwiseSoftMax",
                    option="the mask NoForward",
                    value=2,
                    supported="0 or 1",
                ),
            ),
            (
                spec("ScaledDotProductAttention", 0, (1, 1, 0, 1)),
                NetFormatError(
                    "unsupported-option",
                    layer=1,
                    kind="TNNetScaledDotProductAttention",
                    option="the bidirectional window",
                    value=1,
                    supported="0 only",
                ),
            ),
            (
                spec("RotaryEmbedding", 0, (1,), number=10000.0),
                NetFormatError(
                    "unsupported-option",
                    layer=1,
                    kind="TNNetRotaryEmbedding",
                    option="the scaling mode",
                    value=1,
                    supported="0 only",
                ),
            ),
        ],
    )
    def test_layers_have_to_fit(self, layer: LayerSpec, expected: CaiReferenceError) -> None:
        """Where it is made, not where it is run."""
        with raises(expected):
            Net([source(4, 3), layer], [None, None])
        assert isinstance(expected, NetError)

    def test_there_has_to_be_a_layer(self) -> None:
        """An input at least."""
        with raises(GraphShapeError("no-layers")):
            Net([], [])
        assert [[[7.0]]] == Net([source(1)], [None]).run(STRICT, [[7]]).output.tolist()

    @pytest.mark.parametrize(
        ("given", "shapes"),
        [
            (None, ()),
            (Learned((np.zeros((3, 2)),), np.zeros(2)), ((3, 2), (2,))),
            (Learned((np.zeros((2, 3)),), np.zeros(3)), ((2, 3), (3,))),
            (Learned((np.zeros(3), np.zeros(3)), np.zeros(2)), ((3,), (3,), (2,))),
        ],
    )
    def test_what_was_learned_has_to_fit(self, given: Learned | None, shapes: tuple[tuple[int, ...], ...]) -> None:
        """By its shapes; a convolution keeps one array and its biases."""
        expected = NetError(
            "learned-does-not-fit", layer=1, kind="TNNetPointwiseConvLinear", expected=((2, 3), (2,)), given=shapes
        )
        with raises(expected):
            Net([source(4, 3), convolution(0, 2)], [None, given])

    def test_a_layer_without_weights_learns_nothing(self) -> None:
        """Nor is anything left over or missing."""
        with raises(NetError("learned-does-not-fit", layer=0, kind="TNNetInput", expected=(), given=((2, 3), (2,)))):
            Net([source(4, 3), convolution(0, 2)], [GOOD, GOOD])
        with raises(NetFormatError("layer-count-mismatch", structure=2, data=1)):
            Net([source(4, 3), convolution(0, 2)], [None])

    def test_arrays_are_taken_over(self) -> None:
        """What the caller changes, the net computes with; `copy` is there for others."""
        known = GOOD.copy()
        net = Net([source(1, 3), convolution(0, 2)], [None, known])
        known.biases[:] = 5.0, 7.0
        assert [[[5.0, 7.0]]] == net.run(FAST, np.ones((1, 1, 3))).output.tolist()
