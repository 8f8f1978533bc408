"""From what a file states to a layer that computes, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from cai_reference.layers.projection import interleaving
from cai_reference.nets.format import Neuron
from cai_reference.nets.format.errors import NeuronCountMismatch, WeightCountMismatch
from cai_reference.nets.format.numbers import to_float32
from cai_reference.nets.format.volumes import Volumes
from cai_reference.nets.graph.errors import LearnedDoesNotFit
from cai_reference.nets.graph.layers.activations import Relu, SignedSquareRoot, Softmax, SwiGlu
from cai_reference.nets.graph.layers.attention import DotProductAttention, DotProducts, Rotary, TransposeXD
from cai_reference.nets.graph.layers.channels import ChannelChoice, Concatenation, Negate, Sum
from cai_reference.nets.graph.layers.convolution import GroupedConvolution, PointwiseConvolution
from cai_reference.nets.graph.layers.embedding import Embedding, Input
from cai_reference.nets.graph.layers.layer import Layer, Learned
from cai_reference.nets.graph.layers.vectors import DiagonalSsm, DynamicTanh, TokenShift
from cai_reference.nets.structure import INPUT, PRODUCTS, SELECTS, LayerSpec

CONVOLUTIONS: Final = frozenset(
    {"TNNetPointwiseConvLinear", "TNNetPointwiseConvReLU", "TNNetGroupedPointwiseConvLinear"}
)
"""Classes whose neurons are all alike, one an output channel."""
EMBEDDING: Final = "TNNetEmbedding"
"""The class with one neuron, a table."""


def make_layer(spec: LayerSpec, depth: int, learned: Learned | None) -> Layer:
    """Make a layer that reads `depth` channels; it keeps `learned`, which must be there if its class learns."""
    if learned is None:
        return WITHOUT_WEIGHTS[spec.kind](spec, depth)
    return WITH_WEIGHTS[spec.kind](spec, learned)


def check_learned(index: int, spec: LayerSpec, volumes: Sequence[Volumes], learned: Learned | None) -> None:
    """Check that the arrays of a layer have the shapes that the structure calls for.

    Raises:
        LearnedDoesNotFit: they have others, or there are none, or too many.
    """
    neurons = [volume for volume in volumes for _ in range(volume.count)]
    expected = (*_array_shapes(spec, volumes), (len(neurons),)) if neurons else ()
    given = () if learned is None else tuple(array.shape for array in learned.arrays)
    if expected != given:
        raise LearnedDoesNotFit(index, spec.kind, expected, given)


def check_neurons(index: int, spec: LayerSpec, volumes: Sequence[Volumes], neurons: Sequence[Neuron]) -> None:
    """Check that layer `index` has the neurons that the structure calls for.

    Raises:
        NeuronCountMismatch, WeightCountMismatch: it has others.
    """
    sizes = [volume.weights for volume in volumes for _ in range(volume.count)]
    if len(sizes) != len(neurons):
        raise NeuronCountMismatch(index, spec.kind, len(sizes), len(neurons))
    for place, (size, neuron) in enumerate(zip(sizes, neurons, strict=True)):
        if size != neuron.weights.size:
            raise WeightCountMismatch(index, place, size, neuron.weights.size)


def learned_of(spec: LayerSpec, neurons: Sequence[Neuron]) -> Learned:
    """Collect the neurons of a layer into arrays of its own."""
    biases = np.array([neuron.bias for neuron in neurons], np.float64)
    vectors = [neuron.weights.reshape(-1) for neuron in neurons]
    if spec.kind in CONVOLUTIONS:
        return Learned((np.stack(vectors),), biases)
    if spec.kind == EMBEDDING:
        return Learned((vectors[0].reshape(spec.integers[0], spec.integers[1]).copy(),), biases)
    return Learned(tuple(vector.copy() for vector in vectors), biases)


def neurons_of(spec: LayerSpec, learned: Learned | None) -> tuple[Neuron, ...]:
    """Return what a layer has learned as neurons, rounded to what binary32 holds."""
    if learned is None:
        return ()
    biases = to_float32(learned.biases)
    arrays = [to_float32(array) for array in learned.weights]
    if spec.kind == EMBEDDING:
        (table,) = arrays
        return (Neuron(float(biases[0]), table.reshape(-1), (table.shape[0], 1, table.shape[1])),)
    vectors = arrays[0] if spec.kind in CONVOLUTIONS else arrays
    return tuple(Neuron(float(bias), vector, (1, 1, vector.size)) for bias, vector in zip(biases, vectors, strict=True))


def _array_shapes(spec: LayerSpec, volumes: Sequence[Volumes]) -> Iterator[tuple[int, ...]]:
    """Yield the shapes in which a layer keeps its weights."""
    for volume in volumes:
        if spec.kind in CONVOLUTIONS:
            yield (volume.count, volume.weights)
        elif spec.kind == EMBEDDING:
            yield (volume.shape[0], volume.shape[2])
        else:
            yield from [(volume.weights,)] * volume.count


WithoutWeights: TypeAlias = Callable[[LayerSpec, int], Layer]
WithWeights: TypeAlias = Callable[[LayerSpec, Learned], Layer]

WITHOUT_WEIGHTS: Final[Mapping[str, WithoutWeights]] = MappingProxyType(
    {
        INPUT: lambda spec, depth: Input(),
        "TNNetInterleaveChannels": lambda spec, depth: ChannelChoice.of(interleaving(depth, spec.integers[0])),
        SELECTS: lambda spec, depth: ChannelChoice.of(spec.listed),
        "TNNetDeepConcat": lambda spec, depth: Concatenation(),
        "TNNetSum": lambda spec, depth: Sum(len(spec.listed)),
        "TNNetNegate": lambda spec, depth: Negate(),
        "TNNetRotaryEmbedding": lambda spec, depth: Rotary(spec.floats[0]),
        "TNNetScaledDotProductAttention": lambda spec, depth: DotProductAttention(
            spec.integers[0], causal=spec.integers[1] > 0, window=spec.integers[2] or None
        ),
        PRODUCTS: lambda spec, depth: DotProducts(masked=spec.integers[2] > 0),
        "TNNetTransposeXD": lambda spec, depth: TransposeXD(),
        "TNNetPointwiseSoftMax": lambda spec, depth: Softmax(
            straight=spec.integers[0] > 0, masked=spec.integers[1] > 0
        ),
        "TNNetReLU": lambda spec, depth: Relu(),
        "TNNetSignedSquareRoot1": lambda spec, depth: SignedSquareRoot(),
        "TNNetSwiGLU": lambda spec, depth: SwiGlu(),
    }
)
"""Classes that have nothing to learn."""

WITH_WEIGHTS: Final[Mapping[str, WithWeights]] = MappingProxyType(
    {
        EMBEDDING: lambda spec, learned: Embedding(learned, encodes_zero=spec.integers[2] > 0),
        "TNNetPointwiseConvLinear": lambda spec, learned: PointwiseConvolution(learned, biased=spec.integers[4] == 0),
        "TNNetPointwiseConvReLU": lambda spec, learned: PointwiseConvolution(
            learned, biased=spec.integers[4] == 0, rectified=True
        ),
        "TNNetGroupedPointwiseConvLinear": lambda spec, learned: GroupedConvolution(
            learned, groups=spec.integers[5], biased=spec.integers[4] == 0
        ),
        "TNNetDyT": lambda spec, learned: DynamicTanh(learned),
        "TNNetTokenShift": lambda spec, learned: TokenShift(learned),
        "TNNetDiagonalSSM": lambda spec, learned: DiagonalSsm(learned),
    }
)
"""Classes that learn."""
