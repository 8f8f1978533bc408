"""Errors of `.nn` files: their lines, what a layer states, and the numbers of its neurons.

Lines and columns count from 1; layers, neurons and weights from 0, as the file itself counts layers. What a file says
is carried clipped, so that a message stays short whatever stands in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_reference.nets.errors import NetError

SHOWN: Final = 40
"""How many characters of a file an error repeats."""


def clipped(text: str | bytes) -> str:
    """Return the start of a piece of a file, for an error."""
    start = text[: SHOWN + 1]
    shown = start.decode("ascii", "backslashreplace") if isinstance(start, bytes) else start
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"


class NetFormatError(NetError):
    """A `.nn` file is damaged, or a net cannot be written as one."""


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class EmptyNetFile(NetFormatError):
    """The file holds no bytes."""

    template = "the file is empty; a .nn file has a structure line and a data line"


@dataclass(eq=False)
class WindowsLineEnd(NetFormatError):
    """A line holds a carriage return, as line ends of Windows do."""

    template = "line {line} holds a carriage return; the lines of a .nn file end with a line feed alone"
    line: int


@dataclass(eq=False)
class UnexpectedByte(NetFormatError):
    """A byte that is not printable ASCII."""

    template = "line {line}, column {column}: byte {byte} is not printable ASCII"
    line: int
    column: int
    byte: int


@dataclass(eq=False)
class CutOff(NetFormatError):
    """The last line has no line end. `layer` is the last layer of it that begins."""

    template = "line {line} has no line end: the file is cut off in layer {layer} or right behind it"
    line: int
    layer: int


@dataclass(eq=False)
class WrongLineCount(NetFormatError):
    """Not two lines."""

    template = "a .nn file has a structure line and a data line, 2 lines; found {found}"
    found: int


@dataclass(eq=False)
class LayerCountMismatch(NetFormatError):
    """The two lines tell of different numbers of layers."""

    template = "the structure line has {structure} layers, the data line {data}"
    structure: int
    data: int


# ── structure line ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class MalformedLayer(NetFormatError):
    """A layer of the structure line is not of the form `PREVIOUS)CLASS:INTEGERS:LIST:FLOATS`."""

    template = "layer {layer} of the structure line is not PREVIOUS)CLASS:INTEGERS:LIST:FLOATS: {text!r}"
    layer: int
    text: str


@dataclass(eq=False)
class NotAnInteger(NetFormatError):
    """A number of the structure line is not an integer in its only spelling."""

    template = "layer {layer}: {what} {text!r} is not an integer"
    layer: int
    what: str
    text: str


@dataclass(eq=False)
class IntegerOutOfRange(NetFormatError):
    """An integer of the structure line does not fit into 32 bits."""

    template = "layer {layer}: {what} {text} does not fit into 32 bits"
    layer: int
    what: str
    text: str


@dataclass(eq=False)
class InvalidStructureFloat(NetFormatError):
    """A float of the structure line is not a number that float32 holds. `position` counts from 0."""

    template = "layer {layer}: float {position} is {text!r}, which is {problem}"
    layer: int
    position: int
    text: str
    problem: str


@dataclass(eq=False)
class UnsupportedOption(NetFormatError):
    """A layer asks for something that is not supported; ignoring it would change the result."""

    template = "layer {layer} ({kind}): {option} is {value}; supported is {supported}"
    layer: int
    kind: str
    option: str
    value: float
    supported: str


# ── data line ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class NeuronCountMismatch(NetFormatError):
    """A layer has another number of neurons than its class and sizes call for."""

    template = "layer {layer} ({kind}) needs {expected} neurons, found {found}"
    layer: int
    kind: str
    expected: int
    found: int


@dataclass(eq=False)
class MalformedNeuron(NetFormatError):
    """A neuron is not of the form `BIAS]1;SX;SY;D;w0;w1;…`."""

    template = "layer {layer}, neuron {neuron} is not BIAS]1;SX;SY;D;WEIGHTS: {problem}"
    layer: int
    neuron: int
    problem: str


@dataclass(eq=False)
class VolumeMismatch(NetFormatError):
    """A neuron states other sizes than its layer calls for."""

    template = "layer {layer}, neuron {neuron} needs a volume of {expected}, found {found}"
    layer: int
    neuron: int
    expected: str
    found: str


@dataclass(eq=False)
class WeightCountMismatch(NetFormatError):
    """A neuron holds another number of weights than its volume."""

    template = "layer {layer}, neuron {neuron} needs {expected} weights, found {found}"
    layer: int
    neuron: int
    expected: int
    found: int


@dataclass(eq=False)
class InvalidBias(NetFormatError):
    """A bias is not a number that float32 holds."""

    template = "layer {layer}, neuron {neuron}: the bias is {text!r}, which is {problem}"
    layer: int
    neuron: int
    text: str
    problem: str


@dataclass(eq=False)
class InvalidWeight(NetFormatError):
    """A weight is not a number that float32 holds."""

    template = "layer {layer}, neuron {neuron}: weight {position} is {text!r}, which is {problem}"
    layer: int
    neuron: int
    position: int
    text: str
    problem: str


@dataclass(eq=False)
class NumberNotWritable(NetFormatError):
    """A number is not finite in float32, so that no decimal stands for it."""

    template = "{value} cannot be written: it is not finite in float32"
    value: float
