"""From a net to the decoder or draft that it is, with exactly its weights.

The sizes are inferred from the net, the net of these sizes is built, and the two are compared layer by layer, so that a
net with one layer more, less or other than the family has is refused, not misread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.nets.conversion.errors import LayerDiffers, NeuronsDiffer, UnusedBias
from cai_reference.nets.conversion.from_decoder import build_net
from cai_reference.nets.conversion.inference import infer_configuration
from cai_reference.nets.conversion.learned_layers import LearnedLayer, Model, learned_layers
from cai_reference.nets.format import NetFile, Neuron
from cai_reference.nets.format.volumes import layer_volumes
from cai_reference.nets.shapes import layer_shapes
from cai_reference.nets.structure import LayerSpec
from cai_reference.splitmix import SplitMix64


def net_to_decoder(net: NetFile) -> Model:
    """Return the model of a net. Numbers of single precision become the same numbers in double precision.

    Raises:
        NotADecoder, LayerDiffers: the net has other layers than a decoder or draft of the family.
        NeuronsDiffer, UnusedBias: the layers are right, but the weights do not fit them.
        NonFiniteLeaf: a weight is not finite.
        NetError: the layers do not fit together.
        DecoderError, MixerError: no decoder has such sizes, as latent attention without rotary channels.
    """
    configuration = infer_configuration(net.specs)
    specs = build_net(configuration)
    difference = next(_differences(specs, net.specs), None)
    if difference is not None:
        raise difference
    model = undrawn(configuration)
    learned = learned_layers(model)
    if len(net.neurons) != len(specs):
        raise NeuronsDiffer(len(net.neurons), "layers", f"{len(specs)} layers with neurons", str(len(net.neurons)))
    for place, expected in enumerate(layer_volumes(specs, layer_shapes(specs))):
        kind, neurons = specs[place].kind, net.neurons[place]
        if expected:
            layer = next(learned)
            _check(place, kind, layer, neurons)
            layer.assign(neurons)
        elif neurons:
            raise NeuronsDiffer(place, kind, "0 neurons", str(len(neurons)))
    return model


def undrawn(configuration: DecoderConfiguration | DraftConfiguration) -> Model:
    """Return a model whose matrices are all 0, for whoever sets every parameter.

    Raises:
        MixerError: widths, heads or windows do not fit.
    """
    if isinstance(configuration, DraftConfiguration):
        return TokenShiftDraft.initialize(configuration, SplitMix64(0))
    return Decoder.initialize(configuration, SplitMix64(0))


def _differences(expected: Sequence[LayerSpec], found: Sequence[LayerSpec]) -> Iterator[LayerDiffers]:
    for place, (ours, theirs) in enumerate(zip_longest(expected, found)):
        for (aspect, wanted), (_, given) in zip(_aspects(ours), _aspects(theirs), strict=False):
            if wanted != given:
                yield LayerDiffers(place, aspect, str(wanted), str(given))


def _aspects(spec: LayerSpec | None) -> Iterator[tuple[str, object]]:
    """Yield what a layer states, item by item, each with its name; behind the end of a net there is no layer."""
    if spec is None:
        yield ("class", "no layer")
        return
    yield ("class", spec.kind)
    yield ("predecessor", spec.previous)
    yield ("number of listed inputs or channels", len(spec.listed))
    for what, values in (("integer", spec.integers), ("listed number", spec.listed), ("float", spec.floats)):
        for position, value in enumerate(values):
            yield (f"{what} {position}", value)


def _check(place: int, kind: str, layer: LearnedLayer, neurons: Sequence[Neuron]) -> None:
    sizes = layer.sizes
    if len(neurons) != len(sizes):
        raise NeuronsDiffer(place, kind, f"{len(sizes)} neurons", str(len(neurons)))
    for number, (neuron, size) in enumerate(zip(neurons, sizes, strict=True)):
        if neuron.shape != size or neuron.weights.shape != (size[0] * size[1] * size[2],):
            found = f"{neuron.shape} with {neuron.weights.size} weights"
            raise NeuronsDiffer(place, kind, f"neuron {number} of size {size}", found)
        if neuron.bias != 0.0 and not layer.biased:
            raise UnusedBias(place, kind, number, neuron.bias)
