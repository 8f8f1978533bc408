"""The first line of a `.nn` file: from text to layers, and back.

Layers are joined by `#`. A layer is `PREVIOUS)CLASS:I0;…;I7:LIST:F0;…;F7`; the list is empty or integers joined by `;`.
Each integer has one spelling, so that what is read is written back as it was.

Source: CAI NEURAL API, `SaveStructureToString` and `LoadFromString`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cai_reference.nets.format.errors import (
    IntegerOutOfRange,
    InvalidStructureFloat,
    MalformedLayer,
    NotAnInteger,
    clipped,
)
from cai_reference.nets.format.numbers import format_number, problem_of, read_number
from cai_reference.nets.format.options import check_options
from cai_reference.nets.shape_errors import WrongNumberCount
from cai_reference.nets.shapes import layer_shapes
from cai_reference.nets.structure import NUMBERS, LayerSpec

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


def pieces(text: str, separator: str) -> Iterator[str]:
    """Yield what stands between separators, one piece after the other: a damaged text must not be split as a whole."""
    start = 0
    while (end := text.find(separator, start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def parse_layer(layer: int, text: str) -> LayerSpec:
    """Read one layer.

    Raises:
        MalformedLayer: its parts are not those of a layer.
        WrongNumberCount: not eight integers, or not eight floats.
        NotAnInteger: an integer is none.
        IntegerOutOfRange: an integer has more digits than 32 bits need.
        InvalidStructureFloat: a float is not a decimal, or beyond float32.
    """
    previous, bracket, rest = text.partition(")")
    if not bracket or rest.count(":") != 3:
        raise MalformedLayer(layer, clipped(text))
    kind, integers, listed, floats = rest.split(":")
    for what, numbers in (("integers", integers), ("floats", floats)):
        if numbers.count(";") != NUMBERS - 1:
            raise WrongNumberCount(layer, what, numbers.count(";") + 1)
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
        NotAnInteger: it is none, or spelled otherwise than it would be written.
        IntegerOutOfRange: it is longer than any integer of 32 bits.
    """
    if not INTEGER.fullmatch(text):
        raise NotAnInteger(layer, what, clipped(text))
    if len(text) > LONGEST:
        raise IntegerOutOfRange(layer, what, clipped(text))
    return int(text)


def parse_float(layer: int, position: int, text: str) -> float:
    """Read one float.

    Raises:
        InvalidStructureFloat: it is not a decimal, or beyond float32.
    """
    problem = problem_of(text)
    if problem is not None:
        raise InvalidStructureFloat(layer, position, clipped(text), problem)
    return read_number(text)


def format_layer(spec: LayerSpec) -> str:
    """Write one layer."""
    integers, listed = (";".join(map(str, numbers)) for numbers in (spec.integers, spec.listed))
    floats = ";".join(map(format_number, spec.floats))
    return f"{spec.previous}){spec.kind}:{integers}:{listed}:{floats}"
