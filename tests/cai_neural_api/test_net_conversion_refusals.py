"""Nets that are almost a decoder: the first thing that differs is named, and nothing is guessed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cai_neural_api.conversion import decoder_to_net, net_to_decoder
from cai_neural_api.errors import NetError
from cai_neural_api.format import NetFile, Neuron
from cai_neural_api.net.structure import LayerSpec
from cai_reference.errors import AutogradError
from support_net_models import TINY, drawn
from support_refusals import raises, refuses


@pytest.fixture(scope="module")
def draft() -> NetFile:
    """The net of a small draft."""
    return decoder_to_net(drawn(TINY["draft"]))


@pytest.fixture(scope="module")
def decoder() -> NetFile:
    """The net of a small decoder with one attention block."""
    return decoder_to_net(drawn(TINY["attention"]))


def changed(net: NetFile, place: int, **fields: object) -> NetFile:
    """Return a net in which one layer states something else."""
    spec: LayerSpec = replace(net.specs[place], **fields)  # type: ignore[arg-type]
    return NetFile((*net.specs[:place], spec, *net.specs[place + 1 :]), net.neurons)


def with_neurons(net: NetFile, place: int, *neurons: Neuron) -> NetFile:
    """Return a net in which one layer has other neurons."""
    return NetFile(net.specs, (*net.neurons[:place], neurons, *net.neurons[place + 1 :]))


class TestLayers:
    """What the structure line says."""

    def test_a_layer_of_another_class(self, draft: NetFile) -> None:
        """A signed square root in the place of the ReLU."""
        with raises(
            NetError("layer-differs", layer=4, aspect="class", expected="TNNetReLU", found="TNNetSignedSquareRoot1")
        ):
            net_to_decoder(changed(draft, 4, kind="TNNetSignedSquareRoot1"))

    def test_another_predecessor(self, draft: NetFile) -> None:
        """The hidden layer reads past the token shift."""
        with raises(NetError("layer-differs", layer=3, aspect="predecessor", expected="2", found="1")):
            net_to_decoder(changed(draft, 3, previous=1))

    def test_an_embedding_that_encodes_zero(self, draft: NetFile) -> None:
        """In the family, id 0 is the zero vector."""
        with raises(NetError("layer-differs", layer=1, aspect="integer 2", expected="0", found="1")):
            net_to_decoder(changed(draft, 1, integers=(13, 6, 1, 0, 0, 0, 0, 0)))

    def test_a_sum_in_another_order(self, decoder: NetFile) -> None:
        """The branch comes first."""
        place = next(index for index, spec in enumerate(decoder.specs) if spec.kind == "TNNetSum")
        first, second = decoder.specs[place].listed
        with raises(
            NetError("layer-differs", layer=place, aspect="listed number 0", expected=str(first), found=str(second))
        ):
            net_to_decoder(changed(decoder, place, listed=(second, first)))

    def test_another_base_in_one_head(self, decoder: NetFile) -> None:
        """All rotations share one; the first tells it."""
        place = [index for index, spec in enumerate(decoder.specs) if spec.kind == "TNNetRotaryEmbedding"][3]
        with raises(NetError("layer-differs", layer=place, aspect="float 0", expected="10000.0", found="500.0")):
            net_to_decoder(changed(decoder, place, floats=(500.0, *(0.0,) * 7)))

    def test_attention_that_sees_the_future(self, decoder: NetFile) -> None:
        """The causal mask is off."""
        place = next(index for index, spec in enumerate(decoder.specs) if "Attention" in spec.kind)
        with raises(NetError("layer-differs", layer=place, aspect="integer 1", expected="1", found="0")):
            net_to_decoder(changed(decoder, place, integers=(4, 0, 0, 0, 0, 0, 0, 0)))

    def test_a_net_that_goes_on(self, draft: NetFile) -> None:
        """One more layer behind the softmax."""
        more = NetFile((*draft.specs, LayerSpec("TNNetReLU", 6)), (*draft.neurons, ()))
        with raises(NetError("layer-differs", layer=7, aspect="class", expected="no layer", found="TNNetReLU")):
            net_to_decoder(more)

    def test_a_net_that_stops(self, draft: NetFile) -> None:
        """Without its softmax."""
        with raises(
            NetError("layer-differs", layer=6, aspect="class", expected="TNNetPointwiseSoftMax", found="no layer")
        ):
            net_to_decoder(NetFile(draft.specs[:6], draft.neurons[:6]))

    def test_a_softmax_that_keeps_its_derivative(self, draft: NetFile) -> None:
        """It would give the same rows, but not train the same way."""
        with raises(NetError("layer-differs", layer=6, aspect="integer 0", expected="1", found="0")):
            net_to_decoder(changed(draft, 6, integers=(0,) * 8))

    @pytest.mark.parametrize("missing", ["TNNetEmbedding", "TNNetDyT", "TNNetSwiGLU", "TNNetPointwiseSoftMax"])
    def test_a_net_that_stops_before_what_every_decoder_has(self, missing: str) -> None:
        """Named by the class of the first such layer."""
        net = decoder_to_net(drawn(TINY["hybrid"]))
        end = next(place for place, spec in enumerate(net.specs) if spec.kind == missing)
        with raises(NetError("not-a-decoder", missing=missing)):
            net_to_decoder(NetFile(net.specs[:end], net.neurons[:end]))


class TestNeurons:
    """What the data line says."""

    def test_a_neuron_too_many(self, draft: NetFile) -> None:
        """The token shift has one."""
        with raises(NetError("neurons-differ", layer=2, kind="TNNetTokenShift", expected="1 neurons", found="2")):
            net_to_decoder(with_neurons(draft, 2, *draft.neurons[2] * 2))

    def test_a_neuron_of_another_size(self, draft: NetFile) -> None:
        """As many weights, laid out otherwise."""
        neuron = replace(draft.neurons[2][0], shape=(6, 1, 1))
        with raises(
            NetError(
                "neurons-differ",
                layer=2,
                kind="TNNetTokenShift",
                expected="neuron 0 of size (1, 1, 6)",
                found="(6, 1, 1) with 6 weights",
            )
        ):
            net_to_decoder(with_neurons(draft, 2, neuron))

    def test_neurons_where_none_belong(self, draft: NetFile) -> None:
        """A ReLU learns nothing."""
        with raises(NetError("neurons-differ", layer=4, kind="TNNetReLU", expected="0 neurons", found="1")):
            net_to_decoder(with_neurons(draft, 4, *draft.neurons[2]))

    def test_a_layer_without_its_entry(self, draft: NetFile) -> None:
        """As many entries as layers."""
        with raises(NetError("neurons-differ", layer=6, kind="layers", expected="7 layers with neurons", found="6")):
            net_to_decoder(NetFile(draft.specs, draft.neurons[:6]))

    def test_a_weight_that_is_not_finite(self, draft: NetFile) -> None:
        """Named by the parameter that it would be."""
        neuron = replace(draft.neurons[2][0], weights=np.array([0.5, np.inf, 0.5, 0.5, 0.5, 0.5]))
        with refuses(AutogradError, "non-finite-leaf", match=r"shift\.mix"):
            net_to_decoder(with_neurons(draft, 2, neuron))
