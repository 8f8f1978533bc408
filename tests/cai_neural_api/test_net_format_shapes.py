"""The sizes of every layer, from the structure alone."""

from __future__ import annotations

import pytest

from cai_neural_api.errors import GraphShapeError
from cai_neural_api.format import parse_structure
from cai_neural_api.net.structure import LayerSpec, Shape, layer_shapes
from support_net_format import EVERY_CLASS, EVERY_SHAPE, attention_decoder, layer, structure_line
from support_refusals import refuses, values_of

START = [layer(-1, "Input", "3;1;1"), layer(0, "Embedding", "4;6")]
CONVOLUTION = "PointwiseConvLinear"
ATTENTION = "ScaledDotProductAttention"

DO_NOT_FIT: dict[str, tuple[list[str], GraphShapeError]] = {
    "odd SwiGLU": (
        [layer(1, CONVOLUTION, "7;1;0;1"), layer(2, "SwiGLU")],
        GraphShapeError(
            "depth-does-not-fit",
            layer=3,
            kind="TNNetSwiGLU",
            depth=7,
            needed="an even one, since one half gates the other",
        ),
    ),
    "odd rotation": (
        [layer(1, "SplitChannels", listed="0"), layer(2, "RotaryEmbedding", floats="10000")],
        GraphShapeError(
            "depth-does-not-fit",
            layer=3,
            kind="TNNetRotaryEmbedding",
            depth=1,
            needed="an even one, since pairs of channels are turned",
        ),
    ),
    "attention over the wrong slab": (
        [layer(1, ATTENTION, "6;1")],
        GraphShapeError(
            "depth-does-not-fit", layer=2, kind=f"TNNet{ATTENTION}", depth=6, needed="18, three times the d_k of 6"
        ),
    ),
    "groups that do not divide the neurons": (
        [layer(1, "GroupedPointwiseConvLinear", "4;1;0;1;0;3")],
        GraphShapeError(
            "size-out-of-range",
            layer=2,
            kind="TNNetGroupedPointwiseConvLinear",
            what="the number of neurons",
            value=4,
            needed="a multiple of 3 groups",
        ),
    ),
    "groups that do not divide the depth": (
        [layer(1, "GroupedPointwiseConvLinear", "4;1;0;1;0;4")],
        GraphShapeError(
            "depth-does-not-fit",
            layer=2,
            kind="TNNetGroupedPointwiseConvLinear",
            depth=6,
            needed="a multiple of 4 groups",
        ),
    ),
    "no groups": (
        [layer(1, "GroupedPointwiseConvLinear", "4;1;0;1;0;0")],
        GraphShapeError(
            "size-out-of-range",
            layer=2,
            kind="TNNetGroupedPointwiseConvLinear",
            what="the number of groups",
            value=0,
            needed="1 or more",
        ),
    ),
    "a step that does not divide": (
        [layer(1, "InterleaveChannels", "4")],
        GraphShapeError(
            "depth-does-not-fit", layer=2, kind="TNNetInterleaveChannels", depth=6, needed="a multiple of the step 4"
        ),
    ),
    "a negative channel": (
        [layer(1, "SplitChannels", listed="0;-1")],
        GraphShapeError("channel-out-of-range", layer=2, place=1, channel=-1, depth=6),
    ),
    "a sum of different lengths": (
        [
            layer(1, CONVOLUTION, "3;1;0;1"),
            layer(2, "TransposeXD"),
            layer(1, "TransposeXD"),
            layer(4, "Sum", listed="3;4"),
        ],
        GraphShapeError(
            "inputs-differ", layer=5, kind="TNNetSum", what="tokens", first=3, expected=3, source=4, found=6
        ),
    ),
    "a concatenation of different lengths": (
        [layer(1, "TransposeXD"), layer(2, "DeepConcat", listed="1;1;2")],
        GraphShapeError(
            "inputs-differ", layer=3, kind="TNNetDeepConcat", what="tokens", first=1, expected=3, source=2, found=6
        ),
    ),
    "products of different depths": (
        [layer(1, "SwiGLU"), layer(2, "DotProducts", "1;2")],
        GraphShapeError(
            "inputs-differ", layer=3, kind="TNNetDotProducts", what="channels", first=1, expected=6, source=2, found=3
        ),
    ),
    "a factor that comes later": (
        [layer(1, "DotProducts", "1;3"), layer(2, "ReLU")],
        GraphShapeError("source-not-earlier", layer=2, kind="TNNetDotProducts", role="factor", source=3, last=1),
    ),
    "a predecessor that comes later": (
        [layer(3, "ReLU"), layer(2, "ReLU")],
        GraphShapeError("source-not-earlier", layer=2, kind="TNNetReLU", role="predecessor", source=3, last=1),
    ),
    "a layer that reads itself": (
        [layer(2, "ReLU")],
        GraphShapeError("source-not-earlier", layer=2, kind="TNNetReLU", role="predecessor", source=2, last=1),
    ),
    "a second start": (
        [layer(-1, "ReLU")],
        GraphShapeError("source-not-earlier", layer=2, kind="TNNetReLU", role="predecessor", source=-1, last=1),
    ),
    "ids of several channels": (
        [layer(1, "Embedding", "4;6")],
        GraphShapeError("depth-does-not-fit", layer=2, kind="TNNetEmbedding", depth=6, needed="1, an id a token"),
    ),
}


class TestShapes:
    """`layer_shapes`."""

    def test_every_class_has_its_shape(self) -> None:
        """Tokens and depth by hand."""
        shapes = layer_shapes(parse_structure(structure_line(EVERY_CLASS)))
        assert [Shape(*expected) for expected in EVERY_SHAPE] == list(shapes)

    def test_a_decoder_ends_in_its_vocabulary(self) -> None:
        """One row a token of the context."""
        net = attention_decoder(context=48, width=128, heads=8, hidden=512, vocabulary=3000, blocks=2)
        shapes = layer_shapes(parse_structure(structure_line(net)))
        assert (153, Shape(48, 3000)) == (len(shapes), shapes[-1])

    def test_scores_have_a_row_for_each_of_b_and_a_channel_for_each_of_a(self) -> None:
        """A of 6 tokens, B of 3, both of depth 3 or 6."""
        line = [*START, layer(1, "SwiGLU"), layer(1, "TransposeXD"), layer(3, "DotProducts", "3;2")]
        assert Shape(3, 6) == layer_shapes(parse_structure("#".join(line)))[-1]

    @pytest.mark.parametrize("name", DO_NOT_FIT)
    def test_what_does_not_fit_is_named(self, name: str) -> None:
        """With the index of the layer and what it needs."""
        layers, expected = DO_NOT_FIT[name]
        with pytest.raises(GraphShapeError) as raised:
            parse_structure("#".join(START + layers))
        assert (type(expected), values_of(expected)) == (type(raised.value), values_of(raised.value))

    @pytest.mark.parametrize("integers", ["0;1;1", "3;2;1", "3;1;0", "-3;1;1"])
    def test_an_input_is_a_sequence(self, integers: str) -> None:
        """Of a token at least, one row high, one channel deep or more."""
        with refuses(GraphShapeError, "size-out-of-range", match=r"layer 0 \(TNNetInput\)"):
            parse_structure(layer(-1, "Input", integers))

    @pytest.mark.parametrize("first", [layer(0, "Input", "3;1;1"), layer(-1, "Embedding", "4;6")])
    def test_the_first_layer_is_an_input(self, first: str) -> None:
        """Without predecessor."""
        with refuses(GraphShapeError, "first-layer-not-input"):
            parse_structure(first)

    def test_layers_made_by_hand_are_looked_at_too(self) -> None:
        """Whoever builds specifications may leave numbers out."""
        with refuses(GraphShapeError, "wrong-number-count", match="layer 0 states 3 integers"):
            layer_shapes([LayerSpec("TNNetInput", -1, integers=(3, 1, 1))])
        with refuses(GraphShapeError, "wrong-number-count", match="layer 0 states 0 floats"):
            layer_shapes([LayerSpec("TNNetInput", -1, integers=(3, 1, 1, 0, 0, 0, 0, 0), floats=())])
