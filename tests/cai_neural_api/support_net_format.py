"""Nets in the text of `.nn` files, put together by hand: no sample and no code under test is needed to make them.

Values are n/1024 below 1 in magnitude, whose decimals are exact and no longer than the library writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from typing import Final

Sizes = tuple[int, int, int]
Values = tuple[float, list[float]]
"""The bias and the weights of a neuron."""


def padded(given: str) -> str:
    """Fill numbers up to eight with zeros."""
    numbers = given.split(";") if given else []
    return ";".join(numbers + ["0"] * (8 - len(numbers)))


def layer(previous: int, kind: str, integers: str = "", listed: str = "", floats: str = "") -> str:
    """Spell a layer; numbers that are left out are 0."""
    return f"{previous})TNNet{kind}:{padded(integers)}:{listed}:{padded(floats)}"


EVERY_CLASS: Final[list[tuple[str, list[Sizes]]]] = [
    (layer(-1, "Input", "4;1;1"), []),
    (layer(0, "Embedding", "5;6", floats="0.01999999955"), [(5, 1, 6)]),
    (layer(1, "DyT"), [(1, 1, 6), (1, 1, 6), (1, 1, 1)]),
    (layer(2, "TokenShift"), [(1, 1, 6)]),
    (layer(3, "DiagonalSSM"), [(1, 1, 6)] * 4),
    (layer(4, "PointwiseConvLinear", "12;1;0;1"), [(1, 1, 6)] * 12),
    (layer(5, "SwiGLU"), []),
    (layer(6, "PointwiseConvReLU", "6;1;0;1;1"), [(1, 1, 6)] * 6),
    (layer(7, "GroupedPointwiseConvLinear", "6;1;0;1;0;3"), [(1, 1, 2)] * 6),
    (layer(8, "InterleaveChannels", "3"), []),
    (layer(9, "Sum", listed="9;8;1"), []),
    (layer(10, "SplitChannels", listed="0;1"), []),
    (layer(11, "RotaryEmbedding", floats="10000"), []),
    (layer(10, "SplitChannels", listed="2;3"), []),
    (layer(10, "SplitChannels", listed="5;4"), []),
    (layer(14, "DeepConcat", listed="12;13;14"), []),
    (layer(15, "ScaledDotProductAttention", "2;1;3"), []),
    (layer(16, "Negate", floats="-1"), []),
    (layer(17, "ReLU"), []),
    (layer(18, "SignedSquareRoot1"), []),
    (layer(19, "TransposeXD"), []),
    (layer(20, "DotProducts", "19;17;1"), []),
    (layer(21, "PointwiseSoftMax", "1"), []),
]
"""A net with a layer of every class that is known, and the volumes of each by hand."""

EVERY_SHAPE: Final = [
    (4, 1), (4, 6), (4, 6), (4, 6), (4, 6), (4, 12), (4, 6), (4, 6), (4, 6), (4, 6), (4, 6), (4, 2), (4, 2), (4, 2),
    (4, 2), (4, 6), (4, 2), (4, 2), (4, 2), (4, 2), (2, 4), (4, 4), (4, 4),
]  # fmt: skip
"""Tokens and depth of each of its layers, by hand."""

SMALL: Final[list[tuple[str, list[Sizes]]]] = [
    (layer(-1, "Input", "3;1;1"), []),
    (layer(0, "Embedding", "4;2", floats="0.01999999955"), [(4, 1, 2)]),
    (layer(1, "PointwiseConvLinear", "2;1;0;1"), [(1, 1, 2)] * 2),
    (layer(2, "ReLU"), []),
    (layer(3, "PointwiseConvLinear", "2;1;0;1"), [(1, 1, 2)] * 2),
]
"""A net that ends in a layer with weights."""


def grid(start: int = 7) -> Iterator[int]:
    """Yield numerators in (-1024, 1024) without end, always the same."""
    state = start
    for _ in count():
        state = (state * 1103515245 + 12345) % 2**31
        yield (state >> 8) % 2047 - 1023


def decimal(numerator: int) -> str:
    """Spell n/1024 exactly."""
    text = f"{numerator / 1024:.10f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def structure_line(net: Sequence[tuple[str, list[Sizes]]]) -> str:
    """Join the layers of a net."""
    return "#".join(text for text, _ in net)


def data_line(net: Sequence[tuple[str, list[Sizes]]], numbers: Iterator[str]) -> str:
    """Spell the neurons of a net with numbers as they come, the bias of each before its weights."""
    return "!".join(
        "[".join(f"{next(numbers)}]1;{x};{y};{d};{';'.join(islice(numbers, x * y * d))}" for x, y, d in volumes)
        for _, volumes in net
    )


def net_text(net: Sequence[tuple[str, list[Sizes]]]) -> bytes:
    """Spell a whole file."""
    return f"{structure_line(net)}\n{data_line(net, map(decimal, grid()))}\n".encode("ascii")


def net_values(net: Sequence[tuple[str, list[Sizes]]]) -> list[list[Values]]:
    """Return the values of that file."""
    numbers = (numerator / 1024 for numerator in grid())
    return [[(next(numbers), list(islice(numbers, x * y * d))) for x, y, d in volumes] for _, volumes in net]


def attention_decoder(
    context: int, width: int, heads: int, hidden: int, vocabulary: int, blocks: int
) -> list[tuple[str, list[Sizes]]]:
    """Lay down pre-norm blocks of rotary attention and SwiGLU between an embedding and two output projections."""
    net: list[tuple[str, list[Sizes]]] = []

    def add(previous: int, kind: str, integers: str = "", listed: Sequence[int] = (), floats: str = "") -> int:
        text = layer(previous, kind, integers, ";".join(map(str, listed)), floats)
        net.append((text, []))
        return len(net) - 1

    def convolution(previous: int, inputs: int, outputs: int) -> int:
        index = add(previous, "PointwiseConvLinear", f"{outputs};1;0;1")
        net[index][1].extend([(1, 1, inputs)] * outputs)
        return index

    def norm(previous: int) -> int:
        index = add(previous, "DyT")
        net[index][1].extend([(1, 1, width), (1, 1, width), (1, 1, 1)])
        return index

    key = width // heads
    x = add(-1, "Input", f"{context};1;1")
    x = add(x, "Embedding", f"{vocabulary};{width}", floats="0.01999999955")
    net[x][1].append((vocabulary, 1, width))
    for _ in range(blocks):
        slab = convolution(norm(x), width, 3 * width)
        packs = []
        for head in range(heads):
            starts = (head * key, width + head * key, 2 * width + head * key)
            packs.append(add(slab, "SplitChannels", listed=[at + k for at in starts for k in range(key)]))
        heard = []
        for pack in packs:
            turned = []
            for part in range(2):
                split = add(pack, "SplitChannels", listed=range(part * key, (part + 1) * key))
                turned.append(add(split, "RotaryEmbedding", floats="10000"))
            value = add(pack, "SplitChannels", listed=range(2 * key, 3 * key))
            joined = add(value, "DeepConcat", listed=[*turned, value])
            heard.append(add(joined, "ScaledDotProductAttention", f"{key};1"))
        mixed = convolution(add(heard[-1], "DeepConcat", listed=heard), width, width)
        x = add(mixed, "Sum", listed=[mixed, x])
        gated = add(convolution(norm(x), width, 2 * hidden), "SwiGLU")
        fed = convolution(gated, hidden, width)
        x = add(fed, "Sum", listed=[fed, x])
    add(convolution(convolution(x, width, width), width, vocabulary), "PointwiseSoftMax", "1")
    return net


def full_size() -> bytes:
    """Spell a net of the size of the first published phase, with numbers as long as trained ones are."""
    net = attention_decoder(context=48, width=128, heads=8, hidden=512, vocabulary=3000, blocks=2)
    numbers = cycle([f"{numerator / 1024 + 1e-4:.11f}" for numerator in islice(grid(), 4099)])
    return f"{structure_line(net)}\n{data_line(net, numbers)}\n".encode("ascii")
