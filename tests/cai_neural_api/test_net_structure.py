"""What layers say without being run; biases that cannot matter are found by shifting every bias of a net."""

from __future__ import annotations

import numpy as np
import pytest

from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_neural_api.net.structure import LayerSpec, layer_shapes
from cai_neural_api.structure import constant_key_biases, session_counts, shift_layers
from cai_reference.arithmetic.instances import FAST
from support_net_questions import ATTENTION, LATENT, SSM, decoder_net, draft_net, with_spec

CONVOLUTION = "TNNetPointwiseConvLinear"
IDS = [[3, 1, 4, 1, 5]]


def found_in(net: NetFile) -> set[tuple[int, int]]:
    """Return the layers and neurons that are said not to matter."""
    layers = constant_key_biases(net.specs, layer_shapes(net.specs))
    return {(layer, neuron) for layer, neurons in layers.items() for neuron in neurons}


def idle_in(net: NetFile) -> set[tuple[int, int]]:
    """Return the layers and neurons whose bias can be shifted without any effect on the output."""
    running = Net.from_file(net)
    before = running.output(FAST, IDS)
    idle = set()
    for layer, (spec, known) in enumerate(zip(net.specs, running.layers, strict=True)):
        if known.learned is None or "Conv" not in spec.kind:
            continue
        biases = known.learned.biases
        for neuron in range(biases.size):
            biases[neuron] += 0.75
            if float(np.max(np.abs(running.output(FAST, IDS) - before))) < 1e-12:
                idle.add((layer, neuron))
            biases[neuron] -= 0.75
    return idle


class TestConstantKeyBiases:
    """A bias that every key gets has no effect."""

    @pytest.mark.parametrize("mixer", [ATTENTION, LATENT])
    def test_they_are_the_biases_without_any_effect(self, mixer: object) -> None:
        """Of all biases of a decoder; the last logits' biases shift all probabilities, so none is idle by chance."""
        net = decoder_net(mixer, vocabulary=11)  # type: ignore[arg-type]
        assert idle_in(net) == found_in(net)
        assert (8 if mixer is LATENT else 0) == len(found_in(net))

    def test_a_slab_without_rotation_has_some(self) -> None:
        """The middle third of its neurons: neither queries nor values."""
        net = unrotated()
        assert {(3, neuron) for neuron in range(8, 16)} == found_in(net) == idle_in(net)

    def test_a_channel_with_another_use_is_none(self) -> None:
        """Here the key of head 0 is its query, too."""
        net = unrotated()
        first = next(index for index, spec in enumerate(net.specs) if spec.kind == "TNNetSplitChannels")
        keys = tuple(range(8, 12))
        shared = with_spec(
            net, first, LayerSpec("TNNetSplitChannels", 3, listed=(*keys, *keys, *net.specs[first].listed[8:]))
        )
        unused = {(3, neuron) for neuron in range(4)}
        assert {(3, neuron) for neuron in range(12, 16)} == found_in(shared) == idle_in(shared) - unused

    def test_every_layer_of_its_kind_is_found(self) -> None:
        """Two blocks, two layers."""
        assert 2 == len({layer for layer, _ in found_in(decoder_net(LATENT, LATENT))})


def unrotated() -> NetFile:
    """Return a decoder of plain attention whose rotary layers copy their channels instead."""
    net = decoder_net(ATTENTION, vocabulary=11)
    for index, spec in enumerate(net.specs):
        if spec.kind == "TNNetRotaryEmbedding":
            net = with_spec(net, index, LayerSpec("TNNetSplitChannels", spec.previous, listed=(0, 1, 2, 3)))
    return net


class TestCounts:
    """What a session collects."""

    def test_caches_recurrences_and_rotary_layers(self) -> None:
        """Two heads a layer of attention; latent attention rotates each head's query and one shared key."""
        counted = {mixer: session_counts(decoder_net(mixer).specs) for mixer in (ATTENTION, LATENT, SSM)}
        assert {ATTENTION: (2, 0, 4), LATENT: (2, 0, 3), SSM: (0, 1, 0)} == counted

    def test_token_shifts_are_not_among_them(self) -> None:
        """They are told apart."""
        net = draft_net()
        assert ((0, 0, 0), (2,)) == (session_counts(net.specs), shift_layers(net.specs))
