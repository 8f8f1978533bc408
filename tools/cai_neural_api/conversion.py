"""The way between nets of the CAI NEURAL API and the decoders and drafts of `cai_reference.models`.

The learned layers of a model in net order, each as neurons.

A neuron is a bias and a volume of weights. A convolution has one an output channel, an embedding one with the whole
table, and a layer of vectors (norm, recurrence, token shift) one a vector. The order in which a model registers its
parameters is the order in which the library creates the layers that hold them.

What sizes a net must have been built with, if a decoder or a draft of the family is what it is.

Sizes are read off the layers that state them, without a look at whether the rest fits: the caller builds the net of
these sizes and compares. Three things a net does not tell. Without attention it knows no number of heads, and 1 stands
for it; without rotary layers no base, and 10000 does; and of all numbers of channels per group that give its groups,
the largest does.

From a decoder or a draft to a net that the library loads.

Nets hold single precision, so every weight and the base of the rotary frequencies are rounded to it, to the nearest;
what single precision holds, such as the weights of a net, comes through unchanged.

From a net to the decoder or draft that it is, with exactly its weights.

The sizes are inferred from the net, the net of these sizes is built, and the two are compared layer by layer, so that a
net with one layer more, less or other than the family has is refused, not misread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from typing import TypeAlias

import numpy as np

from cai_neural_api.builders import build_decoder, build_draft
from cai_neural_api.errors import NetError
from cai_neural_api.format import NetFile, Neuron
from cai_neural_api.format.data_line import layer_volumes
from cai_neural_api.net.layers.layer import Learned
from cai_neural_api.net.making import CONVOLUTIONS, learned_of, neurons_of
from cai_neural_api.net.structure import LayerSpec, Shape, layer_shapes
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.matrices import Projection
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.projection import Dense, GroupedStack, group_count
from cai_reference.models.decoder import (
    AttentionSpec,
    Decoder,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.models.stack import Mixer
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64

Model: TypeAlias = Decoder | TokenShiftDraft
Size: TypeAlias = tuple[int, int, int]


def learned_parameters(model: Model) -> Iterator[Sequence[Parameter]]:
    """Yield the parameters of each layer with weights, in the order in which a net has these layers.

    A convolution has W [inputs, outputs], or [G, inputs/G, outputs/G] if it is grouped, and biases; an embedding has a
    table [vocabulary, width]; a norm, a recurrence or a token shift has vectors.
    """
    yield (model.table,)
    if isinstance(model, TokenShiftDraft):
        yield tuple(model.shift.parameters())
        yield from _projections(model.hidden, model.output)
        return
    for block in model.blocks:
        yield _norm(block.norm1)
        yield from _mixer(block.mixer)
        if block.norm2 is not None:
            yield _norm(block.norm2)
        yield from _projections(block.feed_forward.up, block.feed_forward.down)
    yield from _projections(model.hidden, *model.outputs)


def _mixer(mixer: Mixer) -> Iterator[Sequence[Parameter]]:
    if isinstance(mixer, Attention):
        yield from _projections(mixer.slab, mixer.output)
    elif isinstance(mixer, LatentAttention):
        yield from _projections(mixer.query, mixer.latent, mixer.key, mixer.value)
        yield from _projections(mixer.rope_query, mixer.rope_key, mixer.output)
    else:
        assert isinstance(mixer, DiagonalSsm)
        yield from _projections(mixer.inner)
        yield (mixer.a_raw, mixer.b, mixer.c, mixer.e)
        yield from _projections(mixer.output)


def _norm(norm: DynamicTanh) -> Sequence[Parameter]:
    return (norm.gamma, norm.beta, norm.alpha)


def _projections(*projections: Projection) -> Iterator[Sequence[Parameter]]:
    for projection in projections:
        assert isinstance(projection, Dense | GroupedStack)
        parts = (projection,) if isinstance(projection, Dense) else (projection.first, projection.second)
        yield from ((part.weight, part.bias) for part in parts if part is not None)


def _learned(kind: str, parameters: Sequence[Parameter]) -> Learned:
    """Return parameters as a layer of a net keeps them, rounded to single precision."""
    values = [_single(parameter) for parameter in parameters]
    if kind in CONVOLUTIONS:
        weight, biases = values
        return Learned((np.swapaxes(weight, -1, -2).reshape(-1, weight.shape[-2]),), biases)
    return Learned(tuple(values), np.zeros(len(values)))


def _assign(kind: str, parameters: Sequence[Parameter], learned: Learned) -> None:
    """Set parameters to what a layer of a net has learned."""
    if kind in CONVOLUTIONS:
        weight, bias = parameters
        *groups, inputs, outputs = weight.shape
        weight.assign(np.swapaxes(learned.weights[0].reshape(*groups, outputs, inputs), -1, -2))
        bias.assign(learned.biases)
    else:
        for parameter, array in zip(parameters, learned.weights, strict=True):
            parameter.assign(array)


def _single(parameter: Parameter) -> Array:
    """Return the values rounded to single precision, as doubles."""
    with np.errstate(over="ignore"):
        rounded = parameter.value.astype(np.float32).astype(np.float64)
    finite = np.isfinite(rounded)
    if not finite.all():
        raise NetError(
            "weight-beyond-single", parameter=parameter.name, value=float(parameter.value.flat[int(np.argmin(finite))])
        )
    return rounded


Specs = Sequence[LayerSpec]

DENSE = "TNNetPointwiseConvLinear"
GROUPED = "TNNetGroupedPointwiseConvLinear"
ATTENTION = "TNNetScaledDotProductAttention"


def infer_configuration(specs: Specs) -> DecoderConfiguration | DraftConfiguration:
    """Return the sizes.

    Raises:
        NetError (not-a-decoder): a layer is missing that states one.
        ModelError (empty-decoder, size-too-small): what the net states is no size.
        NetError: the layers do not fit together.
    """
    shapes = layer_shapes(specs)
    context = _first(specs, "TNNetInput").integers[0]
    vocabulary, width = _first(specs, "TNNetEmbedding").integers[:2]
    if any(spec.kind == "TNNetTokenShift" for spec in specs):
        return DraftConfiguration(vocabulary, context, width, _first(specs, DENSE).integers[0])
    norms = _places(specs, "TNNetDyT")
    gates = _places(specs, "TNNetSwiGLU")
    for kind in ("TNNetDyT", "TNNetSwiGLU", "TNNetPointwiseSoftMax"):
        _first(specs, kind)
    # One norm a block where blocks are parallel, two where they are sequential.
    parallel = len(norms) == len(gates)
    starts = [*(norms if parallel else norms[::2]), len(specs)]
    blocks = [specs[start:end] for start, end in pairwise(starts)]
    return DecoderConfiguration(
        vocabulary,
        context,
        width,
        heads=next((count for block in blocks if (count := len(_places(block, ATTENTION)))), 1),
        feed_forward=_convolution_before(specs, gates[0]).integers[0] // 2,
        mixers=tuple(_mixer_of(block) for block in blocks),
        wiring=Wiring.PARALLEL if parallel else Wiring.SEQUENTIAL,
        channels_per_group=_channels_per_group(specs, shapes) if _places(specs, GROUPED) else None,
        futures=len(_places(specs, "TNNetPointwiseSoftMax")),
        rope_base=next((spec.floats[0] for spec in specs if spec.kind == "TNNetRotaryEmbedding"), 10000.0),
    )


def _mixer_of(block: Specs) -> MixerSpec:
    if _places(block, "TNNetDiagonalSSM"):
        return SsmSpec()
    attention = _first(block, ATTENTION)
    splits = _places(block, "TNNetSplitChannels")
    before = block[: splits[0]] if splits else block
    dense = [spec.integers[0] for spec in before if spec.kind == DENSE]
    # The first projection is that of the queries or of the slab; if it is grouped, it is not among the dense ones.
    if not _places(before, GROUPED):
        dense = dense[1:]
    if len(dense) < 3:
        return AttentionSpec(attention.integers[2] or None)
    return LatentSpec(dense[0], dense[4] if len(dense) > 4 else 0)


def _channels_per_group(specs: Specs, shapes: Sequence[Shape]) -> int:
    """Return the largest number of channels per group that gives every grouped convolution its number of groups.

    The second convolution of a stack takes its groups from the first, not from the rule, and is left out. Where no
    number fits, 1 does as well as any: the comparison will say which layer differs.
    """
    stated = [
        (shapes[spec.previous].depth, spec.integers[0], spec.integers[5])
        for spec in specs
        if spec.kind == GROUPED and specs[spec.previous].kind != "TNNetInterleaveChannels"
    ]
    largest = max((inputs for inputs, _, _ in stated), default=1)
    for channels in range(largest, 1, -1):
        if all(groups == group_count(inputs, outputs, channels) for inputs, outputs, groups in stated):
            return channels
    return 1


def _convolution_before(specs: Specs, place: int) -> LayerSpec:
    found = [spec for spec in specs[:place] if spec.kind in (DENSE, GROUPED)]
    if not found:
        raise NetError("not-a-decoder", missing=DENSE)
    return found[-1]


def _first(specs: Specs, kind: str) -> LayerSpec:
    places = _places(specs, kind)
    if not places:
        raise NetError("not-a-decoder", missing=kind)
    return specs[places[0]]


def _places(specs: Specs, kind: str) -> list[int]:
    return [place for place, spec in enumerate(specs) if spec.kind == kind]


def decoder_to_net(model: Model) -> NetFile:
    """Return the net of a model, in single precision.

    Raises:
        NetError (weight-beyond-single): a weight is too large for single precision.
    """
    specs = build_net(model.configuration)
    parameters = learned_parameters(model)
    volumes = layer_volumes(specs, layer_shapes(specs))
    learned = [_learned(spec.kind, next(parameters)) if own else None for spec, own in zip(specs, volumes, strict=True)]
    return NetFile(specs, tuple(map(neurons_of, specs, learned)))


def build_net(configuration: DecoderConfiguration | DraftConfiguration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder or a draft.

    Raises:
        LayerError (heads-do-not-divide, odd-rope-width, window-too-small): the sizes of a decoder do not fit.
    """
    if isinstance(configuration, DraftConfiguration):
        return build_draft(configuration)
    return build_decoder(configuration)


def net_to_decoder(net: NetFile) -> Model:
    """Return the model of a net. Numbers of single precision become the same numbers in double precision.

    Raises:
        NetError (not-a-decoder, layer-differs): the net has other layers than a decoder or draft of the family.
        NetError (neurons-differ, unused-bias): the layers are right, but the weights do not fit them.
        AutogradError (non-finite-leaf): a weight is not finite.
        NetError: the layers do not fit together.
        ModelError, LayerError: no decoder has such sizes, as latent attention without rotary channels.
    """
    configuration = infer_configuration(net.specs)
    specs = build_net(configuration)
    difference = next(_differences(specs, net.specs), None)
    if difference is not None:
        raise difference
    model = initial_model(configuration)
    parameters = learned_parameters(model)
    if (found := len(net.neurons)) != len(specs):
        expected = f"{len(specs)} layers with neurons"
        raise NetError("neurons-differ", layer=found, kind="layers", expected=expected, found=str(found))
    for place, volumes in enumerate(layer_volumes(specs, layer_shapes(specs))):
        spec, neurons = specs[place], net.neurons[place]
        _check(place, spec.kind, [volume.shape for volume in volumes for _ in range(volume.count)], neurons)
        if volumes:
            _assign(spec.kind, next(parameters), learned_of(spec, neurons))
    return model


def initial_model(configuration: DecoderConfiguration | DraftConfiguration, seed: int = 0) -> Model:
    """Return a new model, its matrices drawn from a seed.

    Raises:
        LayerError: widths, heads or windows do not fit.
    """
    if isinstance(configuration, DraftConfiguration):
        return TokenShiftDraft.initialize(configuration, SplitMix64(seed))
    return Decoder.initialize(configuration, SplitMix64(seed))


def _differences(expected: Sequence[LayerSpec], found: Sequence[LayerSpec]) -> Iterator[NetError]:
    for place, (ours, theirs) in enumerate(zip_longest(expected, found)):
        for (aspect, wanted), (_, given) in zip(_aspects(ours), _aspects(theirs), strict=False):
            if wanted != given:
                yield NetError("layer-differs", layer=place, aspect=aspect, expected=str(wanted), found=str(given))


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


def _check(place: int, kind: str, sizes: Sequence[Size], neurons: Sequence[Neuron]) -> None:
    differs = partial(NetError, "neurons-differ", layer=place, kind=kind)
    if len(neurons) != len(sizes):
        raise differs(expected=f"{len(sizes)} neurons", found=str(len(neurons)))
    for number, (neuron, size) in enumerate(zip(neurons, sizes, strict=True)):
        if neuron.shape != size or neuron.weights.shape != (size[0] * size[1] * size[2],):
            found = f"{neuron.shape} with {neuron.weights.size} weights"
            raise differs(expected=f"neuron {number} of size {size}", found=found)
        if neuron.bias != 0.0 and kind not in CONVOLUTIONS:
            raise NetError("unused-bias", layer=place, kind=kind, neuron=number, bias=neuron.bias)
