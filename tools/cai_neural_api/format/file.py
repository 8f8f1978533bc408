"""A whole `.nn` file: a structure line and a data line of printable ASCII, each ended by a line feed.

The last line feed is asked for, too: without it, a file cut off within its last number would still read as a net.

Source: CAI NEURAL API, `SaveToFile` and `LoadFromFile`.
"""

from __future__ import annotations

import re
from typing import Final

from cai_neural_api.errors import NetFormatError
from cai_neural_api.format.data_line import NetFile, format_data, layer_volumes, parse_data
from cai_neural_api.format.structure_line import format_structure, parse_structure
from cai_neural_api.net.structure import layer_shapes

EXPECTED: Final = bytes([*b"\n", *range(0x20, 0x7F)])
UNEXPECTED: Final = re.compile(rb"[^\n\x20-\x7e]")

LINES: Final = 2
SEPARATORS: Final = (b"#", b"!")
"""What stands between the layers of each line."""


def parse_net(data: bytes) -> NetFile:
    """Read a `.nn` file.

    Args:
        data: its bytes.

    Returns:
        Its layers and their neurons. Decimals become the nearest double, and that the nearest float32.

    Raises:
        NetError: a leaf that says what is damaged first, and in which line or layer.
    """
    structure, numbers = split_lines(data)
    specs = parse_structure(structure.decode("ascii"))
    volumes = layer_volumes(specs, layer_shapes(specs))
    return NetFile(specs, parse_data(numbers, specs, volumes))


def format_net(net: NetFile) -> bytes:
    """Write a `.nn` file, as the library would.

    Args:
        net: layers and their neurons; values are rounded to float32.

    Raises:
        NetError: a leaf, if what would be written could not be read.
    """
    structure = format_structure(net.specs)
    volumes = layer_volumes(net.specs, layer_shapes(net.specs))
    return f"{structure}\n{'!'.join(format_data(net.specs, volumes, net.neurons))}\n".encode("ascii")


def split_lines(data: bytes) -> tuple[bytes, bytes]:
    """Return the two lines of a file without their ends.

    Raises:
        NetFormatError (empty-net-file): there is nothing.
        NetFormatError (windows-line-end): a line holds a carriage return.
        NetFormatError (unexpected-byte): another byte that is not printable ASCII.
        TraceFault (cut-off): one of the two lines has no end.
        NetFormatError (wrong-line-count): there are not two lines.
    """
    if not data:
        raise NetFormatError("empty-net-file")
    if data.translate(None, EXPECTED):
        refuse_byte(data)
    ends = data.count(b"\n")
    unended = not data.endswith(b"\n")
    if unended and ends < LINES:
        start = data.rfind(b"\n") + 1
        raise NetFormatError("cut-off", line=ends + 1, layer=data.count(SEPARATORS[ends], start))
    if ends + unended != LINES:
        raise NetFormatError("wrong-line-count", found=ends + unended)
    first = data.index(b"\n")
    return data[:first], data[first + 1 : -1]


def refuse_byte(data: bytes) -> None:
    """Raise for the first byte that is not expected.

    Raises:
        NetFormatError (windows-line-end): it is a carriage return.
        NetFormatError (unexpected-byte): it is another.
    """
    found = UNEXPECTED.search(data)
    if found is None:
        return
    line = data.count(b"\n", 0, found.start()) + 1
    if found[0] == b"\r":
        raise NetFormatError("windows-line-end", line=line)
    column = found.start() - data.rfind(b"\n", 0, found.start())
    raise NetFormatError("unexpected-byte", line=line, column=column, byte=found[0][0])
