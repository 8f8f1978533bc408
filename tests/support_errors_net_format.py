"""One call for every error of `.nn` files and of the shapes of nets, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

from cai_reference.errors import CaiReferenceError
from cai_reference.nets import shape_errors as shape
from cai_reference.nets.format import errors as text
from cai_reference.nets.format import format_number, parse_net, parse_structure
from cai_reference.nets.shapes import layer_shapes
from support_net_format import SMALL, layer, net_text

Case = tuple[CaiReferenceError, Callable[[], object]]

INPUT = layer(-1, "Input", "3;1;1")
EMBEDDING = layer(0, "Embedding", "4;6")
WHOLE = net_text(SMALL)


def joined(*layers: str) -> Callable[[], object]:
    """Read the structure line of an input, an embedding of depth 6 and these layers."""
    return lambda: parse_structure("#".join([INPUT, EMBEDDING, *layers]))


def lone(line: str) -> Callable[[], object]:
    """Read a structure line."""
    return lambda: parse_structure(line)


def file(data: bytes) -> Callable[[], object]:
    """Read a file."""
    return lambda: parse_net(data)


def numbers(field: str) -> Callable[[], object]:
    """Read a net of an input and a token shift over ids, with this field for the shift."""
    return lambda: parse_net(f"{INPUT}#{layer(0, 'TokenShift')}\n!{field}\n".encode())


CASES: list[Case] = [
    # shapes
    (shape.NoLayers(), lambda: layer_shapes(())),
    (shape.UnknownLayerClass(2, "TNNetTanh"), joined(layer(1, "Tanh"))),
    (shape.WrongNumberCount(1, "integers", 7), lone(f"{INPUT}#{EMBEDDING.replace('4;6;0;', '4;6;')}")),
    (shape.FirstLayerNotInput("TNNetReLU", -1), lone(layer(-1, "ReLU"))),
    (shape.SecondInput(2), joined(INPUT)),
    (shape.SourceNotEarlier(2, "TNNetSum", "input", 2, 1), joined(layer(1, "Sum", listed="1;2"))),
    (shape.ListMissing(2, "TNNetDeepConcat", "layers"), joined(layer(1, "DeepConcat"))),
    (shape.ListUnexpected(2, "TNNetReLU", 2), joined(layer(1, "ReLU", listed="0;1"))),
    (
        shape.SizeOutOfRange(2, "TNNetPointwiseConvLinear", "the number of neurons", 0, "1 or more"),
        joined(layer(1, "PointwiseConvLinear", "0;1;0;1")),
    ),
    (
        shape.DepthDoesNotFit(2, "TNNetScaledDotProductAttention", 6, "9, three times the d_k of 3"),
        joined(layer(1, "ScaledDotProductAttention", "3;1")),
    ),
    (
        shape.InputsDiffer(3, "TNNetSum", "channels", 1, 6, 2, 3),
        joined(layer(1, "SwiGLU"), layer(2, "Sum", listed="1;2")),
    ),
    (shape.ChannelOutOfRange(2, 1, 6, 6), joined(layer(1, "SplitChannels", listed="5;6"))),
    # lines
    (text.EmptyNetFile(), file(b"")),
    (text.WindowsLineEnd(1), file(WHOLE.replace(b"\n", b"\r\n"))),
    (text.UnexpectedByte(2, 3, 0), file(b"a\nbc\0d\n")),
    (text.CutOff(2, 4), file(WHOLE[:-1])),
    (text.WrongLineCount(3), file(WHOLE + b"\n")),
    (text.LayerCountMismatch(5, 6), file(WHOLE[:-1] + b"!\n")),
    # structure line
    (text.MalformedLayer(1, "0)TNNetReLU"), lone(f"{INPUT}#0)TNNetReLU")),
    (text.NotAnInteger(2, "list entry", "x"), joined(layer(1, "Sum", listed="1;x"))),
    (text.IntegerOutOfRange(2, "integer", "2147483648"), joined(layer(1, "InterleaveChannels", "2147483648"))),
    (text.InvalidStructureFloat(2, 0, "nan", "not a decimal number"), joined(layer(1, "Negate", floats="nan"))),
    (
        text.UnsupportedOption(2, "TNNetScaledDotProductAttention", "the bidirectional window", 1, "0 only"),
        joined(layer(1, "ScaledDotProductAttention", "2;1;0;1")),
    ),
    # data line
    (text.NeuronCountMismatch(1, "TNNetTokenShift", 1, 2), numbers("0]1;1;1;1;0.5[0]1;1;1;1;0.5")),
    (text.MalformedNeuron(1, 0, "the version is '2', not '1'"), numbers("0]2;1;1;1;0.5")),
    (text.VolumeMismatch(1, 0, "1;1;1", "1;1;2"), numbers("0]1;1;1;2;0.5;0.5")),
    (text.WeightCountMismatch(1, 0, 1, 2), numbers("0]1;1;1;1;0.5;0.5")),
    (text.InvalidBias(1, 0, "1e39", "beyond the range of float32"), numbers("1e39]1;1;1;1;0.5")),
    (text.InvalidWeight(1, 0, 0, "inf", "not a decimal number"), numbers("0]1;1;1;1;inf")),
    (text.NumberNotWritable(math.inf), lambda: format_number(math.inf)),
]
