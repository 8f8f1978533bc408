"""Do nets and models become each other without a change?

Sample nets were written by the library, and so were the softmax rows that the models made of them must give. The
interpreter of layer graphs computes a net without knowing what a decoder is, so the two check each other.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cai_neural_api.builders import build_decoder
from cai_neural_api.conversion import Model, decoder_to_net, net_to_decoder
from cai_neural_api.format import NetFile, format_net, parse_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.features import softmax
from cai_reference.errors import LayerError
from cai_reference.models.decoder import Decoder, LatentSpec, SsmSpec
from support_net_models import PUBLISHED, TINY, decoder_of, drawn, layers_of, sample_configuration, single, tiny
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import raises

STATES = ("", ".init", ".trained0", ".trained1")
"""Random weights, initial weights, and what two runs of training made of those."""


def rows(model: Model, ids: list[int]) -> Array:
    """Return softmax rows [tokens, heads · vocabulary]."""
    tape = Tape(STRICT, recording=False)
    heads = [softmax(tape, logits, 2).value[0] for logits in model.forward(tape, ids, 1)]
    return np.concatenate(heads, axis=1)


def values(model: Model) -> dict[str, Array]:
    """Return the parameters by name."""
    return {parameter.name: parameter.value for parameter in model.parameters}


def same_values(first: Model, second: Model) -> None:
    """Require the same names in the same order, and the same bits."""
    ours, theirs = values(first), values(second)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert value.shape == theirs[name].shape
        assert value.tobytes() == np.ascontiguousarray(theirs[name]).tobytes(), name


@needs_samples
class TestSamples:
    """Nets that the library wrote."""

    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_net_becomes_a_model_and_the_same_net_again(self, kind: str, state: str) -> None:
        """Every byte of the file."""
        data = (SAMPLES / f"{kind}{state}.nn").read_bytes()
        assert data == format_net(decoder_to_net(net_to_decoder(parse_net(data))))

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_model_of_a_net_gives_the_rows_of_the_library(self, kind: str) -> None:
        """Three inputs, every position, every head, to the rounding of single precision."""
        model = net_to_decoder(parse_net((SAMPLES / f"{kind}.nn").read_bytes()))
        cases = json.loads((SAMPLES / f"{kind}.json").read_text("utf-8"))["forward"]
        assert 3 == len(cases)
        for case in cases:
            assert np.max(np.abs(np.array(case["output"]) - rows(model, case["input"]))) < 1e-5

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_sizes_are_inferred_from_the_layers(self, kind: str) -> None:
        """All but the heads of a net without attention."""
        expected = sample_configuration(kind)
        if kind == "ssm":
            expected = replace(decoder_of(expected), heads=1)
        assert expected == net_to_decoder(parse_net((SAMPLES / f"{kind}.nn").read_bytes())).configuration


class TestThereAndBack:
    """Models of this project."""

    @pytest.mark.parametrize("name", TINY)
    def test_a_model_comes_back_from_its_net_with_every_bit(self, name: str) -> None:
        """Weights that single precision holds; sizes, names and order are those of the model."""
        model = drawn(TINY[name])
        back = net_to_decoder(decoder_to_net(model))
        assert model.configuration == back.configuration
        same_values(model, back)

    @pytest.mark.parametrize("name", TINY)
    def test_a_net_computes_what_its_model_computes(self, name: str) -> None:
        """Layer by layer in the one, by modules in the other."""
        model = drawn(TINY[name])
        ids = [3, 12, 5, 0, 5, 1, 9]
        output = Net.from_file(decoder_to_net(model)).run(STRICT, [ids]).output[0]
        assert np.allclose(rows(model, ids), output, rtol=0, atol=1e-12)

    def test_a_net_survives_its_file(self) -> None:
        """Through text and back."""
        model = drawn(TINY["hybrid"])
        same_values(model, net_to_decoder(parse_net(format_net(decoder_to_net(model)))))

    @pytest.mark.parametrize("phase", ["phase7"])
    def test_a_published_net_comes_back_with_every_bit(self, phase: str) -> None:
        """The one with groups and three mixers."""
        self._there_and_back(phase)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("phase", PUBLISHED)
    def test_each_published_net_comes_back_with_every_bit(self, phase: str) -> None:
        """All of them, at full size; two of them have no attention that would tell the number of heads."""
        self._there_and_back(phase)

    def _there_and_back(self, phase: str) -> None:
        configuration = PUBLISHED[phase]
        net = initialize(layers_of(configuration), MersenneTwister(3))
        model = net_to_decoder(net)
        if phase == "phase3":
            configuration = replace(decoder_of(configuration), heads=1)
        assert configuration == model.configuration
        back = decoder_to_net(model)
        assert net.specs == back.specs
        for ours, theirs in zip(net.neurons, back.neurons, strict=True):
            assert [(neuron.bias, neuron.shape) for neuron in ours] == [(other.bias, other.shape) for other in theirs]
            assert all(np.array_equal(a.weights, b.weights) for a, b in zip(ours, theirs, strict=True))


class TestWeights:
    """Which weight goes where, and how it is rounded."""

    def test_a_neuron_of_a_dense_convolution_is_a_column(self) -> None:
        """Neuron f holds what leads to output f, with bias f."""
        model = drawn(TINY["attention"])
        assert isinstance(model, Decoder)
        net = decoder_to_net(model)
        weight, bias = values(model)["blocks.0.mixer.slab.weight"], values(model)["blocks.0.mixer.slab.bias"]
        neuron = net.neurons[3][20]
        assert (1, 1, 12) == neuron.shape
        assert [weight[k, 20] for k in range(12)] == neuron.weights.tolist()
        assert bias[20] == neuron.bias

    def test_a_neuron_of_a_grouped_convolution_is_a_column_of_its_group(self) -> None:
        """12 channels in 4 groups: output 7 belongs to group 2, and is its second."""
        model = drawn(TINY["grouped"])
        net = decoder_to_net(model)
        assert "TNNetGroupedPointwiseConvLinear" == net.specs[3].kind
        weight = values(model)["blocks.0.mixer.inner.first.weight"]
        assert (4, 3, 3) == weight.shape
        assert [weight[2, k, 1] for k in range(3)] == net.neurons[3][7].weights.tolist()

    def test_the_table_is_one_neuron_row_by_row(self) -> None:
        """Token after token."""
        model = drawn(TINY["draft"])
        table = values(model)["embedding.weight"]
        (neuron,) = decoder_to_net(model).neurons[1]
        assert ((13, 1, 6), table.reshape(-1).tolist()) == (neuron.shape, neuron.weights.tolist())

    def test_vectors_are_neurons_in_the_order_of_the_library(self) -> None:
        """γ, β, α of a norm; a_raw, b, c, e of a recurrence."""
        model = drawn(tiny(SsmSpec()))
        net, named = decoder_to_net(model), values(model)
        for place, path, names in ((2, "norm1", "gamma beta alpha"), (4, "mixer", "a_raw b c e")):
            expected = [named[f"blocks.0.{path}.{name}"].tolist() for name in names.split()]
            assert expected == [neuron.weights.tolist() for neuron in net.neurons[place]]

    def test_weights_are_rounded_to_single_precision(self) -> None:
        """To the nearest; the model keeps its own."""
        model = drawn(TINY["draft"])
        model.shift.mix.assign(np.full(6, 0.1))  # type: ignore[union-attr]
        (neuron,) = decoder_to_net(model).neurons[2]
        assert [0.10000000149011612] * 6 == neuron.weights.tolist()
        assert np.array_equal(single(np.full(6, 0.1)), neuron.weights)
        assert 0.1 == values(model)["shift.mix"][0]

    def test_other_models_share_nothing_with_a_net(self) -> None:
        """Training a model does not change the net that it came from."""
        net = decoder_to_net(drawn(TINY["draft"]))
        before = net.neurons[2][0].weights.tolist()
        model = net_to_decoder(net)
        model.shift.mix.assign(np.zeros(6))  # type: ignore[union-attr]
        assert before == net.neurons[2][0].weights.tolist()


class TestInference:
    """What a net leaves open."""

    def test_the_largest_number_of_channels_per_group_stands_for_all_that_fit(self) -> None:
        """With 9 to 16 channels, a group of 128 is one of eight."""
        for channels in (9, 16):
            other = replace(decoder_of(PUBLISHED["phase7"]), channels_per_group=channels)
            assert layers_of(PUBLISHED["phase7"]) == build_decoder(other)

    def test_latent_attention_without_rotary_channels_is_no_decoder_of_ours(self) -> None:
        """The library has it, and the builder too."""
        specs = build_decoder(tiny(LatentSpec(5, 0)))
        with raises(LayerError("odd-rope-width", width=0)):
            net_to_decoder(initialize(specs, MersenneTwister(1)))

    def test_a_number_that_a_layer_does_not_use_must_be_zero_in_every_layer(self) -> None:
        """Whatever it means to another version of the library."""
        net = decoder_to_net(drawn(TINY["hybrid"]))
        for place, spec in enumerate(net.specs):
            other = replace(spec, integers=(*spec.integers[:7], 1))
            changed = NetFile((*net.specs[:place], other, *net.specs[place + 1 :]), net.neurons)
            with pytest.raises(Exception, match=f"layer {place}: the integer 7 is 1"):
                net_to_decoder(changed)


def test_a_full_model_of_another_arithmetic_agrees() -> None:
    """The fast arithmetic within rounding, so that the interpreter was not only asked to agree with itself."""
    model = drawn(TINY["grouped everything"])
    ids = [1, 2, 3, 4, 5, 6, 7]
    output = Net.from_file(decoder_to_net(model)).run(FAST, [ids]).output[0]
    assert np.allclose(rows(model, ids), output, rtol=0, atol=1e-9)
