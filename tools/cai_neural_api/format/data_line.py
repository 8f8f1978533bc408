"""The second line of a `.nn` file: from text to neurons, and back.

A field a layer, joined by `!`, empty for a layer without weights; neurons joined by `[`; a neuron is
`BIAS]1;SX;SY;D;w0;w1;…`, where 1 is the version of a volume. What a field claims is compared with the structure line
and with the values that stand there before anything of that size is made.

Source: CAI NEURAL API, `SaveDataToString` of nets, layers, neurons and volumes.

What a `.nn` file holds, read: layers as they are stated, and the neurons of each.

How many neurons each layer has, and of which sizes: what the structure line says about the data line.

Source: CAI NEURAL API, the learnable layer classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from cai_neural_api.errors import NetFormatError, clipped
from cai_neural_api.format.numbers import TOO_LARGE, format_number, format_numbers, pieces, problem_of, to_float32
from cai_neural_api.net.structure import LayerSpec, Shape
from cai_reference.arithmetic import Array


@dataclass(frozen=True, eq=False)
class Neuron:
    """One neuron: a bias and a weight volume.

    Attributes:
        bias: a value of float32; layers that use none keep 0.
        weights: [SizeX · SizeY · Depth] in raw order, index ((SizeX · y) + x) · Depth + d, values of float32. Neurons
            of one shape that were read are rows of one array, which cannot be written to.
        shape: SizeX, SizeY, Depth.
    """

    bias: float
    weights: Array
    shape: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class NetFile:
    """A net as its file states it: a layer of `specs` has the neurons at the same index.

    A convolution has a neuron for each output channel; an embedding one of (V, 1, D); DyT gamma, beta and alpha; the
    diagonal SSM a_raw, b, c and e; the token shift its mix. Every other layer has none.
    """

    specs: tuple[LayerSpec, ...]
    neurons: tuple[tuple[Neuron, ...], ...]


@dataclass(frozen=True)
class Volumes:
    """Neurons in a row that have one shape: how many, and SizeX, SizeY, Depth of each."""

    count: int
    shape: tuple[int, int, int]

    @property
    def weights(self) -> int:
        """How many weights each neuron has."""
        size_x, size_y, depth = self.shape
        return size_x * size_y * depth


def layer_volumes(specs: Sequence[LayerSpec], shapes: Sequence[Shape]) -> tuple[tuple[Volumes, ...], ...]:
    """Return the neurons of every layer, those of one shape taken together.

    Args:
        specs: the layers of a net.
        shapes: their output shapes, as `layer_shapes` derives them.
    """
    return tuple(
        volumes_of(spec, shapes[spec.previous].depth if spec.previous >= 0 else 0, shape.depth)
        for spec, shape in zip(specs, shapes, strict=True)
    )


def volumes_of(spec: LayerSpec, width: int, depth: int) -> tuple[Volumes, ...]:
    """Return the neurons of one layer that reads `width` channels and gives `depth`."""
    match spec.kind:
        case "TNNetEmbedding":
            return (Volumes(1, (spec.integers[0], 1, depth)),)
        case "TNNetPointwiseConvLinear" | "TNNetPointwiseConvReLU":
            return (Volumes(depth, (1, 1, width)),)
        case "TNNetGroupedPointwiseConvLinear":
            return (Volumes(depth, (1, 1, width // spec.integers[5])),)
        case "TNNetDyT":
            return (Volumes(2, (1, 1, depth)), Volumes(1, (1, 1, 1)))
        case "TNNetDiagonalSSM":
            return (Volumes(4, (1, 1, depth)),)
        case "TNNetTokenShift":
            return (Volumes(1, (1, 1, depth)),)
        case _:
            return ()


NUMERALS: Final = b"0123456789.+-eE"
"""Of what a decimal is made. Where nothing else stands, whatever Python's `float` takes is a decimal."""

VERSION: Final = b"1"


def parse_data(
    line: bytes, specs: Sequence[LayerSpec], volumes: Sequence[Sequence[Volumes]]
) -> tuple[tuple[Neuron, ...], ...]:
    """Read a data line.

    Args:
        line: the line without its end.
        specs: the layers of the structure line.
        volumes: what neurons each must have.

    Raises:
        NetFormatError: a leaf with the layer, and the neuron and weight where one is to blame.
    """
    found = line.count(b"!") + 1
    if found != len(specs):
        raise NetFormatError("layer-count-mismatch", structure=len(specs), data=found)
    fields = enumerate(pieces(line, b"!"))
    return tuple(parse_field(layer, specs[layer].kind, text, volumes[layer]) for layer, text in fields)


def parse_field(layer: int, kind: str, text: bytes, volumes: Sequence[Volumes]) -> tuple[Neuron, ...]:
    """Read the neurons of one layer."""
    expected = sum(volume.count for volume in volumes)
    found = text.count(b"[") + 1 if text else 0
    if found != expected:
        raise NetFormatError("neuron-count-mismatch", layer=layer, kind=kind, expected=expected, found=found)
    neurons: list[Neuron] = []
    texts = text.split(b"[") if text else []
    for volume in volumes:
        start = len(neurons)
        neurons.extend(parse_neurons(layer, start, texts[start : start + volume.count], volume))
    return tuple(neurons)


def parse_neurons(layer: int, start: int, texts: Sequence[bytes], volume: Volumes) -> list[Neuron]:
    """Read neurons of one shape into one array; the first of them is neuron `start` of the layer."""
    split = [split_neuron(layer, start + place, text, volume) for place, text in enumerate(texts)]
    weights = np.empty((len(split), volume.weights))
    biases = np.empty(len(split))
    for place, (bias, numbers) in enumerate(split):
        try:
            biases[place] = float(bias)
            weights[place] = np.fromiter(map(float, numbers.split(b";")), np.float64, volume.weights)
        except ValueError:
            blame(layer, start + place, bias, numbers)
            raise
    weights, biases = to_float32(weights), to_float32(biases)
    if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
        for place, (bias, numbers) in enumerate(split):
            blame(layer, start + place, bias, numbers)
    weights.flags.writeable = False
    return [Neuron(float(bias), row, volume.shape) for bias, row in zip(biases, weights, strict=True)]


def split_neuron(layer: int, neuron: int, text: bytes, volume: Volumes) -> tuple[bytes, bytes]:
    """Return the texts of a neuron's bias and of its weights, once its sizes are found to be right.

    Raises:
        NetFormatError (malformed-neuron): it has no bracket, no sizes, or another version.
        NetFormatError (volume-mismatch): its sizes are not those of the layer.
        NetFormatError (weight-count-mismatch): its weights are not as many as its sizes say.
        NetFormatError (invalid-bias): its bias holds what no decimal holds.
        NetFormatError (invalid-weight): a weight does.
    """
    refused = partial(NetFormatError, layer=layer, neuron=neuron)
    bias, bracket, rest = text.partition(b"]")
    if not bracket:
        raise refused("malformed-neuron", problem=f"no ] behind {clipped(bias)!r}")
    sizes = b"%d;%d;%d" % volume.shape
    head = b"%s;%s;" % (VERSION, sizes)
    if not rest.startswith(head):
        version, *found = rest.split(b";", 4)[:4]
        if version != VERSION:
            raise refused("malformed-neuron", problem=f"the version is {clipped(version)!r}, not '1'")
        if len(found) < 3:
            raise refused("malformed-neuron", problem="it ends before its weights")
        if b";".join(found) != sizes:
            raise refused("volume-mismatch", expected=sizes.decode("ascii"), found=clipped(b";".join(found)))
        raise refused("weight-count-mismatch", expected=volume.weights, found=0)
    numbers = rest[len(head) :]
    count = numbers.count(b";") + 1
    if count != volume.weights:
        raise refused("weight-count-mismatch", expected=volume.weights, found=count)
    if bias.translate(None, NUMERALS) or numbers.translate(None, NUMERALS + b";"):
        blame(layer, neuron, bias, numbers)
    return bias, numbers


def blame(layer: int, neuron: int, bias: bytes, numbers: bytes) -> None:
    """Raise for the first number of a neuron that is not one of float32, if there is any.

    Raises:
        NetFormatError (invalid-bias): the bias.
        NetFormatError (invalid-weight): the first such weight.
    """
    refused = partial(NetFormatError, layer=layer, neuron=neuron)
    if problem := problem_of(bias.decode("ascii")):
        raise refused("invalid-bias", text=clipped(bias), problem=problem)
    for position, number in enumerate(numbers.split(b";")):
        if problem := problem_of(number.decode("ascii")):
            raise refused("invalid-weight", position=position, text=clipped(number), problem=problem)


def format_data(
    specs: Sequence[LayerSpec], volumes: Sequence[Sequence[Volumes]], neurons: Sequence[Sequence[Neuron]]
) -> Iterator[str]:
    """Yield the field of each layer.

    Args:
        specs: the layers of the net.
        volumes: what neurons each must have.
        neurons: the neurons of each; values are rounded to float32.

    Raises:
        NetFormatError: a leaf, if what would be written could not be read.
    """
    if len(neurons) != len(specs):
        raise NetFormatError("layer-count-mismatch", structure=len(specs), data=len(neurons))
    for layer, (spec, groups, members) in enumerate(zip(specs, volumes, neurons, strict=True)):
        yield "[".join(format_field(layer, spec.kind, groups, members))


def format_field(layer: int, kind: str, volumes: Sequence[Volumes], neurons: Sequence[Neuron]) -> Iterator[str]:
    """Yield the neurons of one layer, written."""
    expected = sum(volume.count for volume in volumes)
    if len(neurons) != expected:
        raise NetFormatError("neuron-count-mismatch", layer=layer, kind=kind, expected=expected, found=len(neurons))
    index = 0
    for volume in volumes:
        for neuron in neurons[index : index + volume.count]:
            yield format_neuron(layer, index, volume, neuron)
            index += 1


def format_neuron(layer: int, index: int, volume: Volumes, neuron: Neuron) -> str:
    """Write one neuron."""
    refused = partial(NetFormatError, layer=layer, neuron=index)
    sizes = ";".join(map(str, volume.shape))
    if tuple(neuron.shape) != volume.shape:
        raise refused("volume-mismatch", expected=sizes, found=";".join(map(str, neuron.shape)))
    if neuron.weights.size != volume.weights:
        raise refused("weight-count-mismatch", expected=volume.weights, found=neuron.weights.size)
    weights: Array = to_float32(neuron.weights.ravel())
    bias = to_float32(np.array(neuron.bias))
    if not np.isfinite(bias):
        raise refused("invalid-bias", text=repr(neuron.bias), problem=TOO_LARGE)
    finite = np.isfinite(weights)
    if not finite.all():
        position = int(finite.argmin())
        text = repr(float(neuron.weights.ravel()[position]))
        raise refused("invalid-weight", position=position, text=text, problem=TOO_LARGE)
    return f"{format_number(float(bias))}]1;{sizes};{format_numbers(weights)}"
