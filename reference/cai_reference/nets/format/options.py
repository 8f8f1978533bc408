"""What the numbers of each layer class mean, and which values of them are supported.

Every integer and float that a class does not use must be 0. An option that would change the result and is not supported
(a bidirectional window, segment masks, a soft cap, scaled rotary embeddings …) is refused, never ignored.

Source: CAI NEURAL API, the constructors of the layer classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cai_reference.nets.format.errors import IntegerOutOfRange, InvalidStructureFloat, UnsupportedOption
from cai_reference.nets.format.numbers import problem_of
from cai_reference.nets.shapes import check_numbers
from cai_reference.nets.structure import INPUT, PRODUCTS, LayerSpec


@dataclass(frozen=True)
class Option:
    """One number of a layer class: its name, which values are supported in words, and as a test."""

    name: str
    supported: str
    accepts: Callable[[float], bool]


def size(name: str) -> Option:
    """Name a number that the shapes of the net decide on."""
    return Option(name, "any", lambda value: True)


def fixed(name: str, only: int) -> Option:
    """Name a number that must have one value."""
    return Option(name, f"{only} only", lambda value: value == only)


def switch(name: str) -> Option:
    """Name a number that is 0 or 1."""
    return Option(name, "0 or 1", lambda value: value in (0, 1))


@dataclass(frozen=True)
class LayerOptions:
    """The leading integers and floats of a class; those behind them must be 0."""

    integers: tuple[Option, ...] = ()
    floats: tuple[Option, ...] = ()


CONVOLUTION: Final = (
    size("the number of neurons"),
    fixed("the kernel size", 1),
    fixed("the padding", 0),
    fixed("the stride", 1),
    switch("the suppression of the bias"),
)

USED: Final[Mapping[str, LayerOptions]] = MappingProxyType(
    {
        INPUT: LayerOptions((size("SizeX"), size("SizeY"), size("the depth"), switch("the error flag"))),
        "TNNetEmbedding": LayerOptions(
            (size("the vocabulary size"), size("the embedding size"), switch("EncodeZero")), (size("the scale"),)
        ),
        "TNNetPointwiseConvLinear": LayerOptions(CONVOLUTION),
        "TNNetPointwiseConvReLU": LayerOptions(CONVOLUTION),
        "TNNetGroupedPointwiseConvLinear": LayerOptions((*CONVOLUTION, size("the number of groups"))),
        "TNNetInterleaveChannels": LayerOptions((size("the step"),)),
        "TNNetScaledDotProductAttention": LayerOptions(
            (
                size("d_k"),
                switch("the causal mask"),
                Option("the window", "0 or more", lambda value: value >= 0),
                fixed("the bidirectional window", 0),
                fixed("the segment mask", 0),
            ),
            (fixed("the soft cap of scores", 0),),
        ),
        "TNNetRotaryEmbedding": LayerOptions(
            (
                fixed("the scaling mode", 0),
                fixed("the original context of a scaling mode", 0),
                fixed("the flag of a scaling mode", 0),
            ),
            (Option("the base", "above 0", lambda value: value > 0),),
        ),
        "TNNetPointwiseSoftMax": LayerOptions((switch("the skipped derivative"), switch("the mask NoForward"))),
        "TNNetNegate": LayerOptions(floats=(fixed("the factor", -1),)),
        PRODUCTS: LayerOptions((size("factor A"), size("factor B"), switch("the mask NoForward"))),
    }
)
"""The classes that use numbers."""

NONE_USED: Final = LayerOptions()

LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1


def check_options(specs: Sequence[LayerSpec]) -> None:
    """Check the numbers that every layer states.

    Args:
        specs: the layers of a net, in order.

    Raises:
        UnknownLayerClass: a class is not known.
        WrongNumberCount: not eight integers, or not eight floats.
        IntegerOutOfRange: an integer does not fit into 32 bits.
        InvalidStructureFloat: a float is not finite in float32.
        UnsupportedOption: a number asks for what is not supported.
    """
    for index, spec in enumerate(specs):
        check_numbers(index, spec)
        check_ranges(index, spec)
        used = USED.get(spec.kind, NONE_USED)
        check_used(index, spec.kind, "integer", spec.integers, used.integers)
        check_used(index, spec.kind, "float", spec.floats, used.floats)


def check_ranges(index: int, spec: LayerSpec) -> None:
    """Check that every number of a layer can be written.

    Raises:
        IntegerOutOfRange: an integer does not fit into 32 bits.
        InvalidStructureFloat: a float is not finite in float32.
    """
    for what, values in (("predecessor", (spec.previous,)), ("integer", spec.integers), ("list entry", spec.listed)):
        for value in values:
            if not LOWEST <= value <= HIGHEST:
                raise IntegerOutOfRange(index, what, str(value))
    for position, number in enumerate(spec.floats):
        problem = problem_of(repr(float(number)))
        if problem is not None:
            raise InvalidStructureFloat(index, position, repr(number), problem)


def check_used(layer: int, kind: str, what: str, values: Sequence[float], options: Sequence[Option]) -> None:
    """Check one kind of numbers of a layer.

    Raises:
        UnsupportedOption: for the first that is not supported.
    """
    for position, value in enumerate(values):
        option = options[position] if position < len(options) else fixed(f"{what} {position}, which is not used,", 0)
        if not option.accepts(value):
            raise UnsupportedOption(layer, kind, option.name, value, option.supported)
