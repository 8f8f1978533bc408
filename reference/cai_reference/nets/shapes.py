"""The sizes of every layer's output, derived from the structure alone.

A sequence is a volume of SizeX tokens, SizeY 1 and some depth. Nothing is allocated here, whatever sizes a file claims:
a damaged file must fail by its words.

Source: CAI NEURAL API, `SetPrevLayer` of the layer classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from cai_reference.nets.shape_errors import (
    ChannelOutOfRange,
    DepthDoesNotFit,
    FirstLayerNotInput,
    InputsDiffer,
    ListMissing,
    ListUnexpected,
    NoLayers,
    SecondInput,
    SizeOutOfRange,
    SourceNotEarlier,
    UnknownLayerClass,
    WrongNumberCount,
)
from cai_reference.nets.structure import INPUT, JOINS, NUMBERS, PRODUCTS, SELECTS, LayerSpec


@dataclass(frozen=True)
class Shape:
    """A sequence of `tokens` rows of `depth` channels."""

    tokens: int
    depth: int


Rule: TypeAlias = Callable[[int, LayerSpec, Sequence[Shape]], Shape]
"""From a layer's index, what it states and the shapes that it reads to its own shape."""


def layer_shapes(specs: Sequence[LayerSpec]) -> tuple[Shape, ...]:
    """Derive the output shape of every layer.

    Args:
        specs: the layers of a net, in order.

    Returns:
        A shape a layer.

    Raises:
        GraphShapeError: a leaf of it with the index of the first layer that does not fit.
    """
    if not specs:
        raise NoLayers
    shapes: list[Shape] = []
    for index, spec in enumerate(specs):
        check_numbers(index, spec)
        check_sources(index, spec)
        sources = (spec.previous,) if spec.kind == SELECTS else spec.inputs
        shapes.append(RULES[spec.kind](index, spec, [shapes[source] for source in sources]))
    return tuple(shapes)


def check_numbers(index: int, spec: LayerSpec) -> None:
    """Check that a layer's class is known, and that it states as many numbers as every layer does.

    Raises:
        UnknownLayerClass: the class is not known.
        WrongNumberCount: not eight integers, or not eight floats.
    """
    if spec.kind not in RULES:
        raise UnknownLayerClass(index, spec.kind)
    if len(spec.integers) != NUMBERS:
        raise WrongNumberCount(index, "integers", len(spec.integers))
    if len(spec.floats) != NUMBERS:
        raise WrongNumberCount(index, "floats", len(spec.floats))


def check_sources(index: int, spec: LayerSpec) -> None:
    """Check that a layer reads earlier layers only, and has a list where its class takes one.

    Raises:
        FirstLayerNotInput: layer 0 is something else, or has a predecessor.
        SecondInput: a later layer is an input.
        SourceNotEarlier: a predecessor, an entry of a list or a factor is not an earlier layer.
        ListMissing: a sum, a concatenation or a split without a list.
        ListUnexpected: another class with a list.
    """
    if index == 0:
        if spec.kind != INPUT or spec.previous != -1:
            raise FirstLayerNotInput(spec.kind, spec.previous)
    elif spec.kind == INPUT:
        raise SecondInput(index)
    else:
        check_earlier(index, spec, "predecessor", (spec.previous,))
    if spec.kind in JOINS:
        if not spec.listed:
            raise ListMissing(index, spec.kind, "layers")
        check_earlier(index, spec, "input", spec.listed)
    elif spec.kind == SELECTS:
        if not spec.listed:
            raise ListMissing(index, spec.kind, "channels")
    elif spec.listed:
        raise ListUnexpected(index, spec.kind, len(spec.listed))
    if spec.kind == PRODUCTS:
        check_earlier(index, spec, "factor", spec.inputs)


def check_earlier(index: int, spec: LayerSpec, role: str, sources: Sequence[int]) -> None:
    """Check that every source stands before the layer.

    Raises:
        SourceNotEarlier: for the first that does not.
    """
    for source in sources:
        if not 0 <= source < index:
            raise SourceNotEarlier(index, spec.kind, role, source, index - 1)


def positive(index: int, spec: LayerSpec, what: str, value: int) -> int:
    """Return a size that a layer states.

    Raises:
        SizeOutOfRange: it is below 1.
    """
    if value < 1:
        raise SizeOutOfRange(index, spec.kind, what, value, "1 or more")
    return value


def input_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Take the three sizes that an input states; SizeY must be 1."""
    tokens, height, depth = spec.integers[:3]
    if height != 1:
        raise SizeOutOfRange(index, spec.kind, "SizeY", height, "1, as in every sequence")
    return Shape(positive(index, spec, "SizeX", tokens), positive(index, spec, "the depth", depth))


def embedding_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Turn one id a token into a row of the table."""
    (source,) = sources
    positive(index, spec, "the vocabulary size", spec.integers[0])
    if source.depth != 1:
        raise DepthDoesNotFit(index, spec.kind, source.depth, "1, an id a token")
    return Shape(source.tokens, positive(index, spec, "the embedding size", spec.integers[1]))


def convolution_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Give one channel a neuron."""
    (source,) = sources
    return Shape(source.tokens, positive(index, spec, "the number of neurons", spec.integers[0]))


def grouped_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Give one channel a neuron; the groups divide the neurons and the channels that they read."""
    (source,) = sources
    shape = convolution_shape(index, spec, sources)
    groups = positive(index, spec, "the number of groups", spec.integers[5])
    if shape.depth % groups:
        raise SizeOutOfRange(index, spec.kind, "the number of neurons", shape.depth, f"a multiple of {groups} groups")
    if source.depth % groups:
        raise DepthDoesNotFit(index, spec.kind, source.depth, f"a multiple of {groups} groups")
    return shape


def interleaved_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Reorder channels; only a step that divides the depth is sure to be a permutation."""
    (source,) = sources
    step = positive(index, spec, "the step", spec.integers[0])
    if source.depth % step:
        raise DepthDoesNotFit(index, spec.kind, source.depth, f"a multiple of the step {step}")
    return source


def attention_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Read queries, keys and values side by side."""
    (source,) = sources
    width = positive(index, spec, "d_k", spec.integers[0])
    if source.depth != 3 * width:
        raise DepthDoesNotFit(index, spec.kind, source.depth, f"{3 * width}, three times the d_k of {width}")
    return Shape(source.tokens, width)


def rotary_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Turn pairs of channels."""
    (source,) = sources
    if source.depth % 2:
        raise DepthDoesNotFit(index, spec.kind, source.depth, "an even one, since pairs of channels are turned")
    return source


def swiglu_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Gate one half of the channels by the other."""
    (source,) = sources
    if source.depth % 2:
        raise DepthDoesNotFit(index, spec.kind, source.depth, "an even one, since one half gates the other")
    return Shape(source.tokens, source.depth // 2)


def products_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Multiply every row of B with every row of A: a row for each of B, a channel for each of A."""
    a, b = sources
    if a.depth != b.depth:
        raise InputsDiffer(index, spec.kind, "channels", spec.inputs[0], a.depth, spec.inputs[1], b.depth)
    return Shape(b.tokens, a.tokens)


def sum_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Add layers of one shape."""
    same(index, spec, "tokens", [source.tokens for source in sources])
    same(index, spec, "channels", [source.depth for source in sources])
    return sources[0]


def concatenation_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Set the channels of layers of one length side by side."""
    same(index, spec, "tokens", [source.tokens for source in sources])
    depth = 0
    for source in sources:
        depth += source.depth
    return Shape(sources[0].tokens, depth)


def same(index: int, spec: LayerSpec, what: str, sizes: Sequence[int]) -> None:
    """Check that all sizes are that of the first.

    Raises:
        InputsDiffer: for the first that differs.
    """
    for source, size in zip(spec.listed, sizes, strict=True):
        if size != sizes[0]:
            raise InputsDiffer(index, spec.kind, what, spec.listed[0], sizes[0], source, size)


def split_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Pick channels."""
    (source,) = sources
    for place, channel in enumerate(spec.listed):
        if not 0 <= channel < source.depth:
            raise ChannelOutOfRange(index, place, channel, source.depth)
    return Shape(source.tokens, len(spec.listed))


def transposed_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Swap tokens and channels."""
    (source,) = sources
    return Shape(source.depth, source.tokens)


def unchanged_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Keep the shape."""
    return sources[0]


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        INPUT: input_shape,
        "TNNetEmbedding": embedding_shape,
        "TNNetPointwiseConvLinear": convolution_shape,
        "TNNetPointwiseConvReLU": convolution_shape,
        "TNNetGroupedPointwiseConvLinear": grouped_shape,
        "TNNetInterleaveChannels": interleaved_shape,
        "TNNetScaledDotProductAttention": attention_shape,
        "TNNetRotaryEmbedding": rotary_shape,
        "TNNetPointwiseSoftMax": unchanged_shape,
        "TNNetNegate": unchanged_shape,
        PRODUCTS: products_shape,
        "TNNetDyT": unchanged_shape,
        "TNNetSwiGLU": swiglu_shape,
        "TNNetReLU": unchanged_shape,
        "TNNetTokenShift": unchanged_shape,
        "TNNetDiagonalSSM": unchanged_shape,
        "TNNetSum": sum_shape,
        "TNNetDeepConcat": concatenation_shape,
        SELECTS: split_shape,
        "TNNetSignedSquareRoot1": unchanged_shape,
        "TNNetTransposeXD": transposed_shape,
    }
)
"""The known classes, and how each turns the shapes that it reads into its own."""
