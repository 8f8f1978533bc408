"""The second line of a `.nn` file: from text to neurons, and back.

A field a layer, joined by `!`, empty for a layer without weights; neurons joined by `[`; a neuron is
`BIAS]1;SX;SY;D;w0;w1;…`, where 1 is the version of a volume. What a field claims is compared with the structure line
and with the values that stand there before anything of that size is made.

Source: CAI NEURAL API, `SaveDataToString` of nets, layers, neurons and volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.nets.format.errors import (
    InvalidBias,
    InvalidWeight,
    LayerCountMismatch,
    MalformedNeuron,
    NeuronCountMismatch,
    VolumeMismatch,
    WeightCountMismatch,
    clipped,
)
from cai_reference.nets.format.neuron import Neuron
from cai_reference.nets.format.numbers import TOO_LARGE, format_number, format_numbers, problem_of, to_float32
from cai_reference.nets.format.volumes import Volumes
from cai_reference.nets.structure import LayerSpec

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
    fields = line.count(b"!") + 1
    if fields != len(specs):
        raise LayerCountMismatch(len(specs), fields)
    return tuple(parse_field(layer, specs[layer].kind, text, volumes[layer]) for layer, text in enumerate(pieces(line)))


def pieces(line: bytes) -> Iterator[bytes]:
    """Yield the field of each layer, one after the other: only one of them needs to be held."""
    start = 0
    while (end := line.find(b"!", start)) >= 0:
        yield line[start:end]
        start = end + 1
    yield line[start:]


def parse_field(layer: int, kind: str, text: bytes, volumes: Sequence[Volumes]) -> tuple[Neuron, ...]:
    """Read the neurons of one layer."""
    expected = 0
    for volume in volumes:
        expected += volume.count
    found = text.count(b"[") + 1 if text else 0
    if found != expected:
        raise NeuronCountMismatch(layer, kind, expected, found)
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
        MalformedNeuron: it has no bracket, no sizes, or another version.
        VolumeMismatch: its sizes are not those of the layer.
        WeightCountMismatch: its weights are not as many as its sizes say.
        InvalidBias: its bias holds what no decimal holds.
        InvalidWeight: a weight does.
    """
    bias, bracket, rest = text.partition(b"]")
    if not bracket:
        raise MalformedNeuron(layer, neuron, f"no ] behind {clipped(bias)!r}")
    sizes = b"%d;%d;%d" % volume.shape
    head = b"%s;%s;" % (VERSION, sizes)
    if not rest.startswith(head):
        version, *found = rest.split(b";", 4)[:4]
        if version != VERSION:
            raise MalformedNeuron(layer, neuron, f"the version is {clipped(version)!r}, not '1'")
        if len(found) < 3:
            raise MalformedNeuron(layer, neuron, "it ends before its weights")
        if b";".join(found) != sizes:
            raise VolumeMismatch(layer, neuron, sizes.decode("ascii"), clipped(b";".join(found)))
        raise WeightCountMismatch(layer, neuron, volume.weights, 0)
    numbers = rest[len(head) :]
    count = numbers.count(b";") + 1
    if count != volume.weights:
        raise WeightCountMismatch(layer, neuron, volume.weights, count)
    if bias.translate(None, NUMERALS) or numbers.translate(None, NUMERALS + b";"):
        blame(layer, neuron, bias, numbers)
    return bias, numbers


def blame(layer: int, neuron: int, bias: bytes, numbers: bytes) -> None:
    """Raise for the first number of a neuron that is not one of float32, if there is any.

    Raises:
        InvalidBias: the bias.
        InvalidWeight: the first such weight.
    """
    problem = problem_of(bias.decode("ascii"))
    if problem is not None:
        raise InvalidBias(layer, neuron, clipped(bias), problem)
    for position, number in enumerate(numbers.split(b";")):
        problem = problem_of(number.decode("ascii"))
        if problem is not None:
            raise InvalidWeight(layer, neuron, position, clipped(number), problem)


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
        raise LayerCountMismatch(len(specs), len(neurons))
    for layer, (spec, groups, members) in enumerate(zip(specs, volumes, neurons, strict=True)):
        yield "[".join(format_field(layer, spec.kind, groups, members))


def format_field(layer: int, kind: str, volumes: Sequence[Volumes], neurons: Sequence[Neuron]) -> Iterator[str]:
    """Yield the neurons of one layer, written."""
    expected = 0
    for volume in volumes:
        expected += volume.count
    if len(neurons) != expected:
        raise NeuronCountMismatch(layer, kind, expected, len(neurons))
    index = 0
    for volume in volumes:
        for neuron in neurons[index : index + volume.count]:
            yield format_neuron(layer, index, volume, neuron)
            index += 1


def format_neuron(layer: int, index: int, volume: Volumes, neuron: Neuron) -> str:
    """Write one neuron."""
    sizes = ";".join(map(str, volume.shape))
    if tuple(neuron.shape) != volume.shape:
        raise VolumeMismatch(layer, index, sizes, ";".join(map(str, neuron.shape)))
    if neuron.weights.size != volume.weights:
        raise WeightCountMismatch(layer, index, volume.weights, neuron.weights.size)
    weights: Array = to_float32(neuron.weights.ravel())
    bias = to_float32(np.array(neuron.bias))
    if not np.isfinite(bias):
        raise InvalidBias(layer, index, repr(neuron.bias), TOO_LARGE)
    finite = np.isfinite(weights)
    if not finite.all():
        position = int(finite.argmin())
        raise InvalidWeight(layer, index, position, repr(float(neuron.weights.ravel()[position])), TOO_LARGE)
    return f"{format_number(float(bias))}]1;{sizes};{format_numbers(weights)}"
