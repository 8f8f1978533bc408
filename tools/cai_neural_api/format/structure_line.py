"""The first line of a `.nn` file: from text to layers, and back.

Layers are joined by `#`. A layer is `PREVIOUS)CLASS:I0;…;I7:LIST:F0;…;F7`; the list is empty or integers joined by `;`.
Each integer has one spelling, so that what is read is written back as it was.

Source: CAI NEURAL API, `SaveStructureToString` and `LoadFromString`.

What the numbers of each layer class mean, and which values of them are supported.

Every integer and float that a class does not use must be 0. An option that would change the result and is not supported
(a bidirectional window, segment masks, a soft cap, scaled rotary embeddings …) is refused, never ignored.

Source: CAI NEURAL API, the constructors of the layer classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cai_neural_api.errors import GraphShapeError, NetFormatError, clipped
from cai_neural_api.format.numbers import format_number, pieces, problem_of, read_number
from cai_neural_api.net.structure import INPUT, NUMBERS, PRODUCTS, LayerSpec, check_numbers, layer_shapes


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


CONVOLUTION: Final = (
    size("the number of neurons"),
    fixed("the kernel size", 1),
    fixed("the padding", 0),
    fixed("the stride", 1),
    switch("the suppression of the bias"),
)

USED: Final[Mapping[str, tuple[Sequence[Option], Sequence[Option]]]] = {
    INPUT: ((size("SizeX"), size("SizeY"), size("the depth"), switch("the error flag")), ()),
    "TNNetEmbedding": (
        (size("the vocabulary size"), size("the embedding size"), switch("EncodeZero")),
        (size("the scale"),),
    ),
    "TNNetPointwiseConvLinear": (CONVOLUTION, ()),
    "TNNetPointwiseConvReLU": (CONVOLUTION, ()),
    "TNNetGroupedPointwiseConvLinear": ((*CONVOLUTION, size("the number of groups")), ()),
    "TNNetInterleaveChannels": ((size("the step"),), ()),
    "TNNetScaledDotProductAttention": (
        (
            size("d_k"),
            switch("the causal mask"),
            Option("the window", "0 or more", lambda value: value >= 0),
            fixed("the bidirectional window", 0),
            fixed("the segment mask", 0),
        ),
        (fixed("the soft cap of scores", 0),),
    ),
    "TNNetRotaryEmbedding": (
        (
            fixed("the scaling mode", 0),
            fixed("the original context of a scaling mode", 0),
            fixed("the flag of a scaling mode", 0),
        ),
        (Option("the base", "above 0", lambda value: value > 0),),
    ),
    "TNNetPointwiseSoftMax": ((switch("the skipped derivative"), switch("the mask NoForward")), ()),
    "TNNetNegate": ((), (fixed("the factor", -1),)),
    PRODUCTS: ((size("factor A"), size("factor B"), switch("the mask NoForward")), ()),
}
"""The leading integers and floats of the classes that use numbers; those behind them must be 0."""

LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1


def check_options(specs: Sequence[LayerSpec]) -> None:
    """Check the numbers that every layer states.

    Args:
        specs: the layers of a net, in order.

    Raises:
        GraphShapeError (unknown-layer-class): a class is not known.
        GraphShapeError (wrong-number-count): not eight integers, or not eight floats.
        NetFormatError (integer-out-of-range): an integer does not fit into 32 bits.
        NetFormatError (invalid-structure-float): a float is not finite in float32.
        NetFormatError (unsupported-option): a number asks for what is not supported.
    """
    for index, spec in enumerate(specs):
        check_numbers(index, spec)
        check_ranges(index, spec)
        integers, floats = USED.get(spec.kind, ((), ()))
        check_used(index, spec, "integer", spec.integers, integers)
        check_used(index, spec, "float", spec.floats, floats)


def check_ranges(index: int, spec: LayerSpec) -> None:
    """Check that every number of a layer can be written.

    Raises:
        NetFormatError (integer-out-of-range): an integer does not fit into 32 bits.
        NetFormatError (invalid-structure-float): a float is not finite in float32.
    """
    for what, values in (("predecessor", (spec.previous,)), ("integer", spec.integers), ("list entry", spec.listed)):
        for value in values:
            if not LOWEST <= value <= HIGHEST:
                raise NetFormatError("integer-out-of-range", layer=index, what=what, text=str(value))
    for position, number in enumerate(spec.floats):
        if problem := problem_of(repr(float(number))):
            fields = {"position": position, "text": repr(number), "problem": problem}
            raise NetFormatError("invalid-structure-float", layer=index, **fields)


def check_used(index: int, spec: LayerSpec, what: str, values: Sequence[float], options: Sequence[Option]) -> None:
    """Check one kind of numbers of a layer.

    Raises:
        NetFormatError (unsupported-option): for the first that is not supported.
    """
    for position, value in enumerate(values):
        option = options[position] if position < len(options) else fixed(f"{what} {position}, which is not used,", 0)
        if not option.accepts(value):
            fields = {"option": option.name, "value": value, "supported": option.supported}
            raise NetFormatError("unsupported-option", layer=index, kind=spec.kind, **fields)


INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")

LONGEST: Final = len(str(-(2**31)))
"""How many characters an integer of 32 bits has at most."""


def parse_structure(line: str) -> tuple[LayerSpec, ...]:
    """Read a structure line.

    Args:
        line: the line without its end.

    Returns:
        The layers in order. Floats are rounded to float32.

    Raises:
        NetError: a leaf with the index of the first layer that is damaged, unknown, unsupported or does not fit.
    """
    specs = tuple(parse_layer(index, text) for index, text in enumerate(pieces(line, "#")))
    check_options(specs)
    layer_shapes(specs)
    return specs


def format_structure(specs: Sequence[LayerSpec]) -> str:
    """Write a structure line, without a line end.

    Args:
        specs: the layers of a net, in order; floats are rounded to float32.

    Raises:
        NetError: a leaf, if what would be written could not be read.
    """
    check_options(specs)
    layer_shapes(specs)
    return "#".join(format_layer(spec) for spec in specs)


def parse_layer(layer: int, text: str) -> LayerSpec:
    """Read one layer.

    Raises:
        NetFormatError (malformed-layer): its parts are not those of a layer.
        GraphShapeError (wrong-number-count): not eight integers, or not eight floats.
        NetFormatError (not-an-integer): an integer is none.
        NetFormatError (integer-out-of-range): an integer has more digits than 32 bits need.
        NetFormatError (invalid-structure-float): a float is not a decimal, or beyond float32.
    """
    previous, bracket, rest = text.partition(")")
    if not bracket or rest.count(":") != 3:
        raise NetFormatError("malformed-layer", layer=layer, text=clipped(text))
    kind, integers, listed, floats = rest.split(":")
    for what, numbers in (("integers", integers), ("floats", floats)):
        if numbers.count(";") != NUMBERS - 1:
            raise GraphShapeError("wrong-number-count", layer=layer, what=what, found=numbers.count(";") + 1)
    return LayerSpec(
        # No known class is as long as what is shown of it.
        kind=clipped(kind),
        previous=parse_integer(layer, "predecessor", previous),
        integers=tuple(parse_integer(layer, "integer", number) for number in integers.split(";")),
        floats=tuple(parse_float(layer, position, number) for position, number in enumerate(floats.split(";"))),
        listed=tuple(parse_integer(layer, "list entry", number) for number in pieces(listed, ";")) if listed else (),
    )


def parse_integer(layer: int, what: str, text: str) -> int:
    """Read one integer.

    Raises:
        NetFormatError (not-an-integer): it is none, or spelled otherwise than it would be written.
        NetFormatError (integer-out-of-range): it is longer than any integer of 32 bits.
    """
    if not INTEGER.fullmatch(text):
        raise NetFormatError("not-an-integer", layer=layer, what=what, text=clipped(text))
    if len(text) > LONGEST:
        raise NetFormatError("integer-out-of-range", layer=layer, what=what, text=clipped(text))
    return int(text)


def parse_float(layer: int, position: int, text: str) -> float:
    """Read one float.

    Raises:
        NetFormatError (invalid-structure-float): it is not a decimal, or beyond float32.
    """
    if problem := problem_of(text):
        fields = {"position": position, "text": clipped(text), "problem": problem}
        raise NetFormatError("invalid-structure-float", layer=layer, **fields)
    return read_number(text)


def format_layer(spec: LayerSpec) -> str:
    """Write one layer."""
    integers, listed = (";".join(map(str, numbers)) for numbers in (spec.integers, spec.listed))
    floats = ";".join(map(format_number, spec.floats))
    return f"{spec.previous}){spec.kind}:{integers}:{listed}:{floats}"
