"""Do the builders lay down the layers of the library, one for one?

The fingerprints are the SHA-256 of structure lines that the library wrote; the lines lie beside the checkout.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from cai_neural_api.builders import build_decoder
from cai_neural_api.format import format_structure, parse_structure
from cai_neural_api.format.data_line import layer_volumes
from cai_neural_api.net.structure import layer_shapes
from cai_reference.errors import LayerError
from cai_reference.models.decoder import AttentionSpec, LatentSpec
from support_net_models import PUBLISHED, TINY, Configuration, layers_of, sample, sample_configuration, tiny
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import raises

FINGERPRINTS = {
    "phase1": "fffa3114911496c1fed464182a45ab8a25a4a40133efd079684582094e265807",
    "phase2": "982464d11ff84b39cca9b372a88bdbbfddf9204a1456e88e7af669171602cd51",
    "phase3": "c804a9051304fdbf50feeeabb9eb5a316802885e6e9c90a2522d1851ba7eac5e",
    "phase4": "0e5cb1da42a18cc31d84631e716b87431dee1314f4e0e786ebb314f9c7eda332",
    "phase5draft": "c25b0cf735eb295a3e9594a7349f937d4bda216410ffe886c7f07303f69efac5",
    "phase6": "8f1821b2f70f94b6cd220a56db56558cc175b6af39590c88a83ccf75f3c4c2fc",
    "phase7": "fb11adc6a7e15571ceaf6070b893f10d356c755a2b4cdba96e9f1e9b2d3cdaa4",
    "phase8": "73125a127970cf7a0a24441ad46ce6ffba86f506e0be6ddf9fff56f43a15c18c",
    "phase9": "ac6fd69f5ae889bea8559c169361e8a1923e80d2a3d958c040b88bc29e4a81c8",
}

COUNTS = {
    "phase1": (153, 1_309_700, 6_456),
    "phase2": (158, 2_077_700, 12_456),
    "phase3": (25, 1_245_188, 5_944),
    "phase4": (169, 1_287_172, 6_664),
    "phase5draft": (7, 976_448, 3_256),
    "phase6": (107, 1_496_582, 7_712),
    "phase7": (140, 541_574, 8_992),
    "phase8": (153, 1_309_700, 6_456),
    "phase9": (149, 1_309_186, 6_456),
}
"""Layers, weights without biases, and biases of convolutions."""


def kinds(configuration: Configuration) -> list[str]:
    """Return the classes of a decoder's layers without the library's prefix."""
    return [spec.kind.removeprefix("TNNet") for spec in layers_of(configuration)]


class TestPublishedNets:
    """The nine phases at their published size, and the sample nets."""

    @pytest.mark.parametrize("phase", PUBLISHED)
    def test_a_structure_line_has_the_fingerprint_of_the_library(self, phase: str) -> None:
        """Every byte of it."""
        line = format_structure(layers_of(PUBLISHED[phase]))
        assert FINGERPRINTS[phase] == hashlib.sha256(line.encode("ascii")).hexdigest()

    @needs_samples
    @pytest.mark.parametrize("phase", PUBLISHED)
    def test_a_structure_line_is_that_of_the_library(self, phase: str) -> None:
        """Layer by layer, which shows where it differs."""
        expected = (SAMPLES / "structures" / f"{phase}.structure.txt").read_text("ascii")
        assert parse_structure(expected) == layers_of(PUBLISHED[phase])

    @needs_samples
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_sample_has_the_layers_of_its_configuration(self, kind: str) -> None:
        """The first line of its file."""
        specs = layers_of(sample_configuration(kind))
        assert (SAMPLES / f"{kind}.nn").read_text("ascii").splitlines()[0] == format_structure(specs)
        assert sample(kind)["layers"] == len(specs)

    @pytest.mark.parametrize("phase", PUBLISHED)
    def test_layers_weights_and_biases_are_as_many_as_published(self, phase: str) -> None:
        """The published totals leave out biases; those follow from the published layers."""
        specs = layers_of(PUBLISHED[phase])
        volumes = layer_volumes(specs, layer_shapes(specs))
        weights = sum(volume.count * volume.weights for layer in volumes for volume in layer)
        convolutions = [layer for spec, layer in zip(specs, volumes, strict=True) if "Pointwise" in spec.kind and layer]
        biases = sum(volume.count for layer in convolutions for volume in layer)
        assert COUNTS[phase] == (len(specs), weights, biases)


class TestParts:
    """What no published net has, or has once among many layers."""

    @pytest.mark.parametrize("name", TINY)
    def test_the_layers_fit_together(self, name: str) -> None:
        """Every width and every list."""
        layer_shapes(layers_of(TINY[name]))

    def test_latent_attention_without_rotary_channels_is_plain_attention_over_parts(self) -> None:
        """No rotary layers, no negation, and nothing to cut off behind attention."""
        head = ["SplitChannels"] * 3 + ["DeepConcat", "ScaledDotProductAttention"]
        conv = "PointwiseConvLinear"
        expected = ["Input", "Embedding", "DyT", conv, conv, conv, conv, *head * 3, "DeepConcat", conv, "Sum"]
        specs = build_decoder(tiny(LatentSpec(5, 0)))
        assert expected == [spec.kind.removeprefix("TNNet") for spec in specs][: len(expected)]
        assert (3, 5, 6) == tuple(spec.previous for spec in specs[7:10])
        assert (4, 1, 0) == specs[11].integers[:3]

    def test_groups_that_shrink_end_in_a_sum_and_groups_that_grow_in_an_interleaving(self) -> None:
        """12 to 20 channels is one convolution and its interleaving, 10 to 12 is a whole stack."""
        grouped, interleave = "GroupedPointwiseConvLinear", "InterleaveChannels"
        found = kinds(tiny(AttentionSpec(), channels_per_group=3))
        gate = found.index("SwiGLU")
        assert ["DyT", grouped, interleave] == found[gate - 3 : gate]
        assert [grouped, interleave, "Sum"] == found[gate + 1 : gate + 4]

    def test_a_single_group_is_a_grouped_convolution_alone(self) -> None:
        """It keeps its class, so that a reader can tell it from a dense one."""
        found = kinds(tiny(AttentionSpec(), channels_per_group=36))
        assert "InterleaveChannels" not in found
        assert "PointwiseConvLinear" not in found

    def test_the_last_softmax_of_one_head_skips_its_derivative(self) -> None:
        """Those of several heads keep theirs."""
        softmaxes = {
            futures: [
                spec.integers[0] for spec in build_decoder(tiny(AttentionSpec(), futures=futures)) if "Max" in spec.kind
            ]
            for futures in (1, 2)
        }
        assert {1: [1], 2: [0, 0]} == softmaxes

    def test_the_base_of_the_rotation_is_stored_in_single_precision(self) -> None:
        """0.1 is not 0.1 there."""
        specs = build_decoder(tiny(AttentionSpec(), rope_base=0.1))
        bases = {spec.floats[0] for spec in specs if spec.kind == "TNNetRotaryEmbedding"}
        assert {0.10000000149011612} == bases


class TestRefusals:
    """Sizes of which the library would make a net that is none."""

    def test_heads_that_do_not_divide_the_width(self) -> None:
        """Whatever the mixer."""
        for spec in (AttentionSpec(), LatentSpec(5, 2)):
            with raises(LayerError("heads-do-not-divide", width=12, heads=5)):
                build_decoder(replace(tiny(spec), heads=5))

    def test_odd_rotations(self) -> None:
        """Pairs of channels are turned."""
        with raises(LayerError("odd-rope-width", width=3)):
            build_decoder(tiny(LatentSpec(5, 3)))

    def test_a_window_without_the_current_token(self) -> None:
        """The library would take 0 for no window at all."""
        with raises(LayerError("window-too-small", window=0)):
            build_decoder(tiny(AttentionSpec(0)))
