"""From what a file states to a layer that computes, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.layers.projection import interleaving
from cai_reference.nets.format import Neuron
from cai_reference.nets.graph.errors import UnsupportedClass
from cai_reference.nets.graph.layers.activations import Relu, SignedSquareRoot, Softmax, SwiGlu
from cai_reference.nets.graph.layers.attention import DotProductAttention, DotProducts, Rotary, TransposeXD
from cai_reference.nets.graph.layers.channels import ChannelChoice, Concatenation, Negate, Sum
from cai_reference.nets.graph.layers.convolution import GroupedConvolution, PointwiseConvolution
from cai_reference.nets.graph.layers.embedding import Embedding, Input
from cai_reference.nets.graph.layers.layer import Layer, Learned
from cai_reference.nets.graph.layers.vectors import DiagonalSsm, DynamicTanh, TokenShift
from cai_reference.nets.structure import LayerSpec

CONVOLUTIONS: Final = frozenset(
    {"TNNetPointwiseConvLinear", "TNNetPointwiseConvReLU", "TNNetGroupedPointwiseConvLinear"}
)
"""Classes whose neurons are all alike, one an output channel."""


def make_layer(index: int, spec: LayerSpec, learned: Learned, depth: int) -> Layer:
    """Make layer `index`, whose input is `depth` deep; it keeps `learned` if its class has something to learn.

    Raises:
        UnsupportedClass: there is no formula for the class.
    """
    make = _MAKERS.get(spec.kind)
    if make is None:
        raise UnsupportedClass(index, spec.kind)
    return make(spec, learned, depth)


def learned_of(spec: LayerSpec, neurons: Sequence[Neuron]) -> Learned:
    """Collect the neurons of a layer into arrays of its own."""
    biases = np.array([neuron.bias for neuron in neurons], np.float64)
    if spec.kind in CONVOLUTIONS:
        return Learned((np.stack([neuron.weights for neuron in neurons]),), biases)
    if spec.kind == "TNNetEmbedding":
        (table,) = neurons
        return Learned((table.weights.reshape(spec.integers[0], spec.integers[1]).copy(),), biases)
    return Learned(tuple(neuron.weights.copy() for neuron in neurons), biases)


def neurons_of(spec: LayerSpec, learned: Learned | None) -> tuple[Neuron, ...]:
    """Return what a layer has learned as neurons, rounded to what binary32 holds."""
    if learned is None:
        return ()
    biases = _rounded(learned.biases)
    if spec.kind in CONVOLUTIONS:
        rows = _rounded(learned.weights[0])
        return tuple(Neuron(float(bias), row, (1, 1, row.size)) for bias, row in zip(biases, rows, strict=True))
    if spec.kind == "TNNetEmbedding":
        table = _rounded(learned.weights[0])
        return (Neuron(float(biases[0]), table.reshape(-1), (table.shape[0], 1, table.shape[1])),)
    vectors = [_rounded(vector) for vector in learned.weights]
    return tuple(Neuron(float(bias), vector, (1, 1, vector.size)) for bias, vector in zip(biases, vectors, strict=True))


def _rounded(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)


_Maker = Callable[[LayerSpec, Learned, int], Layer]

_MAKERS: Final[Mapping[str, _Maker]] = {
    "TNNetInput": lambda spec, learned, depth: Input(),
    "TNNetEmbedding": lambda spec, learned, depth: Embedding(learned, encodes_zero=spec.integers[2] > 0),
    "TNNetPointwiseConvLinear": lambda spec, learned, depth: PointwiseConvolution(
        learned, biased=spec.integers[4] == 0
    ),
    "TNNetPointwiseConvReLU": lambda spec, learned, depth: PointwiseConvolution(
        learned, biased=spec.integers[4] == 0, rectified=True
    ),
    "TNNetGroupedPointwiseConvLinear": lambda spec, learned, depth: GroupedConvolution(
        learned, groups=spec.integers[5], biased=spec.integers[4] == 0
    ),
    "TNNetInterleaveChannels": lambda spec, learned, depth: ChannelChoice(
        np.array(interleaving(depth, spec.integers[0]), np.intp)
    ),
    "TNNetSplitChannels": lambda spec, learned, depth: ChannelChoice(np.array(spec.listed, np.intp)),
    "TNNetDeepConcat": lambda spec, learned, depth: Concatenation(),
    "TNNetSum": lambda spec, learned, depth: Sum(),
    "TNNetNegate": lambda spec, learned, depth: Negate(),
    "TNNetRotaryEmbedding": lambda spec, learned, depth: Rotary(spec.floats[0]),
    "TNNetScaledDotProductAttention": lambda spec, learned, depth: DotProductAttention(
        spec.integers[0], causal=spec.integers[1] > 0, window=spec.integers[2] or None
    ),
    "TNNetDotProducts": lambda spec, learned, depth: DotProducts(masked=spec.integers[2] > 0),
    "TNNetTransposeXD": lambda spec, learned, depth: TransposeXD(),
    "TNNetPointwiseSoftMax": lambda spec, learned, depth: Softmax(
        straight=spec.integers[0] > 0, masked=spec.integers[1] > 0
    ),
    "TNNetReLU": lambda spec, learned, depth: Relu(),
    "TNNetSignedSquareRoot1": lambda spec, learned, depth: SignedSquareRoot(),
    "TNNetSwiGLU": lambda spec, learned, depth: SwiGlu(),
    "TNNetDyT": lambda spec, learned, depth: DynamicTanh(learned),
    "TNNetTokenShift": lambda spec, learned, depth: TokenShift(learned),
    "TNNetDiagonalSSM": lambda spec, learned, depth: DiagonalSsm(learned),
}
