"""From what a file states to a layer that computes, and back.

Gradients on their way back: what the consumers of each layer's output hand to it, added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from cai_neural_api.errors import NetError, NetFormatError
from cai_neural_api.format import Neuron
from cai_neural_api.format.data_line import Volumes
from cai_neural_api.format.numbers import to_float32
from cai_neural_api.net.layers.attention import DotProductAttention, DotProducts, Rotary, TransposeXD
from cai_neural_api.net.layers.layer import InputGradient, Layer, Learned, SomeChannels
from cai_neural_api.net.layers.learned import (
    DiagonalSsmLayer,
    DynamicTanhLayer,
    Embedding,
    GroupedConvolution,
    Input,
    PointwiseConvolution,
    TokenShiftLayer,
)
from cai_neural_api.net.layers.pointwise import (
    ChannelChoice,
    Concatenation,
    Negate,
    Relu,
    SignedSquareRoot,
    Softmax,
    Sum,
    SwiGlu,
)
from cai_neural_api.net.structure import INPUT, PRODUCTS, SELECTS, LayerSpec
from cai_reference.arithmetic import Array
from cai_reference.layers.projection import interleaving


class GradientTotals:
    """A total for each layer, to which consumers add in any order."""

    def __init__(self, layers: int) -> None:
        self._totals: list[Array | None] = [None] * layers
        # A total may be written to once it is a sum: before, a consumer may have handed the same array to others.
        self._own = [False] * layers

    def add(self, layer: int, part: InputGradient) -> None:
        """Add the gradient from one consumer."""
        total = self._totals[layer]
        if isinstance(part, SomeChannels):
            if total is None:
                total = np.zeros((*part.gradient.shape[:2], part.depth))
            elif not self._own[layer]:
                total = total.copy()
            total[..., part.channels] += part.gradient
            self._totals[layer], self._own[layer] = total, True
        elif total is None:
            self._totals[layer] = part
        elif self._own[layer]:
            total += part
        else:
            self._totals[layer], self._own[layer] = total + part, True

    def take(self, layer: int) -> Array | None:
        """Return the total of a layer and forget it; None where nothing was added."""
        total, self._totals[layer] = self._totals[layer], None
        return total


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
        NetError (learned-does-not-fit): they have others, or there are none, or too many.
    """
    neurons = [volume for volume in volumes for _ in range(volume.count)]
    expected = (*_array_shapes(spec, volumes), (len(neurons),)) if neurons else ()
    given = () if learned is None else tuple(array.shape for array in learned.arrays)
    if expected != given:
        raise NetError("learned-does-not-fit", layer=index, kind=spec.kind, expected=expected, given=given)


def check_neurons(index: int, spec: LayerSpec, volumes: Sequence[Volumes], neurons: Sequence[Neuron]) -> None:
    """Check that layer `index` has the neurons that the structure calls for.

    Raises:
        NetFormatError (neuron-count-mismatch, weight-count-mismatch): it has others.
    """
    sizes = [volume.weights for volume in volumes for _ in range(volume.count)]
    if len(sizes) != len(neurons):
        counts = {"expected": len(sizes), "found": len(neurons)}
        raise NetFormatError("neuron-count-mismatch", layer=index, kind=spec.kind, **counts)
    for place, (size, neuron) in enumerate(zip(sizes, neurons, strict=True)):
        found = neuron.weights.size
        if size != found:
            raise NetFormatError("weight-count-mismatch", layer=index, neuron=place, expected=size, found=found)


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

WITHOUT_WEIGHTS: Final[Mapping[str, WithoutWeights]] = {
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
    "TNNetPointwiseSoftMax": lambda spec, depth: Softmax(straight=spec.integers[0] > 0, masked=spec.integers[1] > 0),
    "TNNetReLU": lambda spec, depth: Relu(),
    "TNNetSignedSquareRoot1": lambda spec, depth: SignedSquareRoot(),
    "TNNetSwiGLU": lambda spec, depth: SwiGlu(),
}
"""Classes that have nothing to learn."""

WITH_WEIGHTS: Final[Mapping[str, WithWeights]] = {
    EMBEDDING: lambda spec, learned: Embedding(learned, encodes_zero=spec.integers[2] > 0),
    "TNNetPointwiseConvLinear": lambda spec, learned: PointwiseConvolution(learned, biased=spec.integers[4] == 0),
    "TNNetPointwiseConvReLU": lambda spec, learned: PointwiseConvolution(
        learned, biased=spec.integers[4] == 0, rectified=True
    ),
    "TNNetGroupedPointwiseConvLinear": lambda spec, learned: GroupedConvolution(
        learned, groups=spec.integers[5], biased=spec.integers[4] == 0
    ),
    "TNNetDyT": lambda spec, learned: DynamicTanhLayer(learned),
    "TNNetTokenShift": lambda spec, learned: TokenShiftLayer(learned),
    "TNNetDiagonalSSM": lambda spec, learned: DiagonalSsmLayer(learned),
}
"""Classes that learn."""
