"""One call for every error of `.nn` files and of the shapes of nets, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

from cai_neural_api.errors import GraphShapeError, NetFormatError
from cai_neural_api.format import format_number, parse_net, parse_structure
from cai_neural_api.net.structure import layer_shapes
from cai_reference.errors import CaiReferenceError
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
    (GraphShapeError("no-layers"), lambda: layer_shapes(())),
    (GraphShapeError("unknown-layer-class", layer=2, kind="TNNetTanh"), joined(layer(1, "Tanh"))),
    (
        GraphShapeError("wrong-number-count", layer=1, what="integers", found=7),
        lone(f"{INPUT}#{EMBEDDING.replace('4;6;0;', '4;6;')}"),
    ),
    (GraphShapeError("first-layer-not-input", kind="TNNetReLU", previous=-1), lone(layer(-1, "ReLU"))),
    (GraphShapeError("second-input", layer=2), joined(INPUT)),
    (
        GraphShapeError("source-not-earlier", layer=2, kind="TNNetSum", role="input", source=2, last=1),
        joined(layer(1, "Sum", listed="1;2")),
    ),
    (GraphShapeError("list-missing", layer=2, kind="TNNetDeepConcat", what="layers"), joined(layer(1, "DeepConcat"))),
    (GraphShapeError("list-unexpected", layer=2, kind="TNNetReLU", found=2), joined(layer(1, "ReLU", listed="0;1"))),
    (
        GraphShapeError(
            "size-out-of-range",
            layer=2,
            kind="TNNetPointwiseConvLinear",
            what="the number of neurons",
            value=0,
            needed="1 or more",
        ),
        joined(layer(1, "PointwiseConvLinear", "0;1;0;1")),
    ),
    (
        GraphShapeError(
            "depth-does-not-fit",
            layer=2,
            kind="TNNetScaledDotProductAttention",
            depth=6,
            needed="9, three times the d_k of 3",
        ),
        joined(layer(1, "ScaledDotProductAttention", "3;1")),
    ),
    (
        GraphShapeError(
            "inputs-differ", layer=3, kind="TNNetSum", what="channels", first=1, expected=6, source=2, found=3
        ),
        joined(layer(1, "SwiGLU"), layer(2, "Sum", listed="1;2")),
    ),
    (
        GraphShapeError("channel-out-of-range", layer=2, place=1, channel=6, depth=6),
        joined(layer(1, "SplitChannels", listed="5;6")),
    ),
    # lines
    (NetFormatError("empty-net-file"), file(b"")),
    (NetFormatError("windows-line-end", line=1), file(WHOLE.replace(b"\n", b"\r\n"))),
    (NetFormatError("unexpected-byte", line=2, column=3, byte=0), file(b"a\nbc\0d\n")),
    (NetFormatError("cut-off", line=2, layer=4), file(WHOLE[:-1])),
    (NetFormatError("wrong-line-count", found=3), file(WHOLE + b"\n")),
    (NetFormatError("layer-count-mismatch", structure=5, data=6), file(WHOLE[:-1] + b"!\n")),
    # structure line
    (NetFormatError("malformed-layer", layer=1, text="0)TNNetReLU"), lone(f"{INPUT}#0)TNNetReLU")),
    (NetFormatError("not-an-integer", layer=2, what="list entry", text="x"), joined(layer(1, "Sum", listed="1;x"))),
    (
        NetFormatError("integer-out-of-range", layer=2, what="integer", text="2147483648"),
        joined(layer(1, "InterleaveChannels", "2147483648")),
    ),
    (
        NetFormatError("invalid-structure-float", layer=2, position=0, text="nan", problem="not a decimal number"),
        joined(layer(1, "Negate", floats="nan")),
    ),
    (
        NetFormatError(
            "unsupported-option",
            layer=2,
            kind="TNNetScaledDotProductAttention",
            option="the bidirectional window",
            value=1,
            supported="0 only",
        ),
        joined(layer(1, "ScaledDotProductAttention", "2;1;0;1")),
    ),
    # data line
    (
        NetFormatError("neuron-count-mismatch", layer=1, kind="TNNetTokenShift", expected=1, found=2),
        numbers("0]1;1;1;1;0.5[0]1;1;1;1;0.5"),
    ),
    (
        NetFormatError("malformed-neuron", layer=1, neuron=0, problem="the version is '2', not '1'"),
        numbers("0]2;1;1;1;0.5"),
    ),
    (
        NetFormatError("volume-mismatch", layer=1, neuron=0, expected="1;1;1", found="1;1;2"),
        numbers("0]1;1;1;2;0.5;0.5"),
    ),
    (NetFormatError("weight-count-mismatch", layer=1, neuron=0, expected=1, found=2), numbers("0]1;1;1;1;0.5;0.5")),
    (
        NetFormatError("invalid-bias", layer=1, neuron=0, text="1e39", problem="beyond the range of float32"),
        numbers("1e39]1;1;1;1;0.5"),
    ),
    (
        NetFormatError("invalid-weight", layer=1, neuron=0, position=0, text="inf", problem="not a decimal number"),
        numbers("0]1;1;1;1;inf"),
    ),
    (NetFormatError("number-not-writable", value=math.inf), lambda: format_number(math.inf)),
]
