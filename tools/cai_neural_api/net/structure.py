"""The structure line of a `.nn` file: which layers a net has, and how they are connected.

Layers are joined by `#`; a layer is `PREVIOUS)CLASS:I0;…;I7:LIST:F0;…;F7`, with eight integers, a list that is mostly
empty, and eight floats.

The sizes of every layer's output, derived from the structure alone.

A sequence is a volume of SizeX tokens, SizeY 1 and some depth. Nothing is allocated here, whatever sizes a file claims:
a damaged file must fail by its words.

Source: CAI NEURAL API, `SetPrevLayer` of the layer classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_neural_api.errors import GraphShapeError

NUMBERS: Final = 8
"""How many integers, and how many floats, each layer states."""

JOINS: Final = frozenset({"TNNetSum", "TNNetDeepConcat"})
"""Classes whose list names the layers that they take together."""
SELECTS: Final = "TNNetSplitChannels"
"""The class whose list names channels."""
PRODUCTS: Final = "TNNetDotProducts"
"""The class whose first two integers name the layers that it multiplies."""
INPUT: Final = "TNNetInput"


@dataclass(frozen=True)
class LayerSpec:
    """One layer as its file states it.

    Attributes:
        kind: the library's name of the class.
        previous: the index of the predecessor, -1 for the first layer.
        integers: eight; what they mean depends on the class.
        floats: eight.
        listed: input layers of a sum or a concatenation, channels of a split; empty otherwise.
    """

    kind: str
    previous: int
    integers: tuple[int, ...] = (0,) * NUMBERS
    floats: tuple[float, ...] = (0.0,) * NUMBERS
    listed: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """The indices of the layers that this one reads, in order."""
        if self.kind == INPUT:
            return ()
        if self.kind in JOINS:
            return self.listed
        if self.kind == PRODUCTS:
            return self.integers[:2]
        return (self.previous,)


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
        raise GraphShapeError("no-layers")
    shapes: list[Shape] = []
    for index, spec in enumerate(specs):
        check_numbers(index, spec)
        check_sources(index, spec)
        sources = (spec.previous,) if spec.kind == SELECTS else spec.inputs
        shapes.append(RULES[spec.kind](index, spec, [shapes[source] for source in sources]))
    return tuple(shapes)


def misfit(code: str, index: int, spec: LayerSpec, **fields: object) -> GraphShapeError:
    """Return the error of a layer that does not fit, by its index and class."""
    return GraphShapeError(code, layer=index, kind=spec.kind, **fields)


def check_numbers(index: int, spec: LayerSpec) -> None:
    """Check that a layer's class is known, and that it states as many numbers as every layer does.

    Raises:
        GraphShapeError (unknown-layer-class): the class is not known.
        GraphShapeError (wrong-number-count): not eight integers, or not eight floats.
    """
    if spec.kind not in RULES:
        raise misfit("unknown-layer-class", index, spec)
    for what, found in (("integers", len(spec.integers)), ("floats", len(spec.floats))):
        if found != NUMBERS:
            raise GraphShapeError("wrong-number-count", layer=index, what=what, found=found)


def check_sources(index: int, spec: LayerSpec) -> None:
    """Check that a layer reads earlier layers only, and has a list where its class takes one.

    Raises:
        GraphShapeError (first-layer-not-input): layer 0 is something else, or has a predecessor.
        GraphShapeError (second-input): a later layer is an input.
        GraphShapeError (source-not-earlier): a predecessor, an entry of a list or a factor is not an earlier layer.
        GraphShapeError (list-missing): a sum, a concatenation or a split without a list.
        GraphShapeError (list-unexpected): another class with a list.
    """
    if index == 0:
        if spec.kind != INPUT or spec.previous != -1:
            raise GraphShapeError("first-layer-not-input", kind=spec.kind, previous=spec.previous)
    elif spec.kind == INPUT:
        raise GraphShapeError("second-input", layer=index)
    else:
        check_earlier(index, spec, "predecessor", (spec.previous,))
    if spec.kind in JOINS:
        if not spec.listed:
            raise misfit("list-missing", index, spec, what="layers")
        check_earlier(index, spec, "input", spec.listed)
    elif spec.kind == SELECTS:
        if not spec.listed:
            raise misfit("list-missing", index, spec, what="channels")
    elif spec.listed:
        raise misfit("list-unexpected", index, spec, found=len(spec.listed))
    if spec.kind == PRODUCTS:
        check_earlier(index, spec, "factor", spec.inputs)


def check_earlier(index: int, spec: LayerSpec, role: str, sources: Sequence[int]) -> None:
    """Check that every source stands before the layer.

    Raises:
        GraphShapeError (source-not-earlier): for the first that does not.
    """
    for source in sources:
        if not 0 <= source < index:
            raise misfit("source-not-earlier", index, spec, role=role, source=source, last=index - 1)


def positive(index: int, spec: LayerSpec, what: str, value: int) -> int:
    """Return a size that a layer states.

    Raises:
        GraphShapeError (size-out-of-range): it is below 1.
    """
    if value < 1:
        raise misfit("size-out-of-range", index, spec, what=what, value=value, needed="1 or more")
    return value


def check_depth(index: int, spec: LayerSpec, source: Shape, divisor: int, needed: str) -> None:
    """Check that the depth of what a layer reads is a multiple of a number.

    Raises:
        GraphShapeError (depth-does-not-fit): it is not; `needed` says what would be.
    """
    if source.depth % divisor:
        raise misfit("depth-does-not-fit", index, spec, depth=source.depth, needed=needed)


def input_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Take the three sizes that an input states; SizeY must be 1."""
    tokens, height, depth = spec.integers[:3]
    if height != 1:
        needed = "1, as in every sequence"
        raise misfit("size-out-of-range", index, spec, what="SizeY", value=height, needed=needed)
    return Shape(positive(index, spec, "SizeX", tokens), positive(index, spec, "the depth", depth))


def embedding_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Turn one id a token into a row of the table."""
    (source,) = sources
    positive(index, spec, "the vocabulary size", spec.integers[0])
    if source.depth != 1:
        raise misfit("depth-does-not-fit", index, spec, depth=source.depth, needed="1, an id a token")
    return Shape(source.tokens, positive(index, spec, "the embedding size", spec.integers[1]))


def convolution_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Give one channel a neuron."""
    (source,) = sources
    return Shape(source.tokens, positive(index, spec, "the number of neurons", spec.integers[0]))


def grouped_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Give one channel a neuron; the groups divide the neurons and the channels that they read."""
    shape = convolution_shape(index, spec, sources)
    groups = positive(index, spec, "the number of groups", spec.integers[5])
    needed = f"a multiple of {groups} groups"
    if shape.depth % groups:
        what = "the number of neurons"
        raise misfit("size-out-of-range", index, spec, what=what, value=shape.depth, needed=needed)
    check_depth(index, spec, sources[0], groups, needed)
    return shape


def interleaved_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Reorder channels; only a step that divides the depth is sure to be a permutation."""
    step = positive(index, spec, "the step", spec.integers[0])
    check_depth(index, spec, sources[0], step, f"a multiple of the step {step}")
    return sources[0]


def attention_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Read queries, keys and values side by side."""
    (source,) = sources
    width = positive(index, spec, "d_k", spec.integers[0])
    if source.depth != 3 * width:
        needed = f"{3 * width}, three times the d_k of {width}"
        raise misfit("depth-does-not-fit", index, spec, depth=source.depth, needed=needed)
    return Shape(source.tokens, width)


def rotary_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Turn pairs of channels."""
    check_depth(index, spec, sources[0], 2, "an even one, since pairs of channels are turned")
    return sources[0]


def swiglu_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Gate one half of the channels by the other."""
    (source,) = sources
    check_depth(index, spec, source, 2, "an even one, since one half gates the other")
    return Shape(source.tokens, source.depth // 2)


def products_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Multiply every row of B with every row of A: a row for each of B, a channel for each of A."""
    a, b = sources
    check_equal(index, spec, "channels", [a.depth, b.depth])
    return Shape(b.tokens, a.tokens)


def sum_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Add layers of one shape."""
    check_equal(index, spec, "tokens", [source.tokens for source in sources])
    check_equal(index, spec, "channels", [source.depth for source in sources])
    return sources[0]


def concatenation_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Set the channels of layers of one length side by side."""
    check_equal(index, spec, "tokens", [source.tokens for source in sources])
    return Shape(sources[0].tokens, sum(source.depth for source in sources))


def check_equal(index: int, spec: LayerSpec, what: str, sizes: Sequence[int]) -> None:
    """Check that all inputs of a layer have the size of the first.

    Raises:
        GraphShapeError (inputs-differ): for the first that differs.
    """
    first, expected = spec.inputs[0], sizes[0]
    for source, found in zip(spec.inputs, sizes, strict=True):
        if found != expected:
            fields = {"what": what, "first": first, "expected": expected, "source": source, "found": found}
            raise misfit("inputs-differ", index, spec, **fields)


def split_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Pick channels."""
    depth = sources[0].depth
    for place, channel in enumerate(spec.listed):
        if not 0 <= channel < depth:
            raise GraphShapeError("channel-out-of-range", layer=index, place=place, channel=channel, depth=depth)
    return Shape(sources[0].tokens, len(spec.listed))


def transposed_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Swap tokens and channels."""
    return Shape(sources[0].depth, sources[0].tokens)


def unchanged_shape(index: int, spec: LayerSpec, sources: Sequence[Shape]) -> Shape:
    """Keep the shape."""
    return sources[0]


RULES: Final[Mapping[str, Rule]] = {
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
"""The known classes, and how each turns the shapes that it reads into its own."""
