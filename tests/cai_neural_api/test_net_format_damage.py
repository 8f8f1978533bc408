"""Damaged `.nn` files: one error that says what and where, soon, and without holding what a file only claims."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest

from cai_neural_api.errors import NetError, NetFormatError
from cai_neural_api.format import format_net, parse_net, parse_structure
from support_net_format import EVERY_CLASS, SMALL, layer, net_text, structure_line
from support_refusals import refuses

WHOLE = net_text(EVERY_CLASS)
LITTLE = net_text(SMALL)
STRUCTURE, DATA = LITTLE.decode("ascii").splitlines()
FIELDS = DATA.split("!")
"""Of the small net: nothing, a table of 4 rows, two neurons, nothing, two neurons."""
TABLE = FIELDS[1].split(";")
CONVOLUTION = "TNNetPointwiseConvLinear"

MOST = 2**31 - 1


def message(data: bytes) -> str:
    """Return what reading a file says."""
    with pytest.raises(NetError) as raised:
        parse_net(data)
    return str(raised.value)


def with_field(index: int, text: str) -> bytes:
    """Replace the field of a layer in the small net."""
    fields = [*FIELDS[:index], text, *FIELDS[index + 1 :]]
    return f"{STRUCTURE}\n{'!'.join(fields)}\n".encode("ascii")


def with_last(text: str) -> bytes:
    """Replace the last weight of the table, which is weight 7 of neuron 0 of layer 1."""
    return with_field(1, ";".join([*TABLE[:-1], text]))


def with_layer(index: int, text: str) -> bytes:
    """Replace what a layer of the small net states."""
    layers = STRUCTURE.split("#")
    layers[index] = text
    return f"{'#'.join(layers)}\n{DATA}\n".encode("ascii")


DAMAGED: dict[str, tuple[bytes, str]] = {
    "no data line": (LITTLE[: LITTLE.index(b"\n") + 1], "2 lines; found 1"),
    "empty data line": (f"{STRUCTURE}\n\n".encode(), "the structure line has 5 layers, the data line 1"),
    "empty structure line": (f"\n{DATA}\n".encode(), "layer 0 of the structure line is not"),
    "an extra empty line": (LITTLE + b"\n", "2 lines; found 3"),
    "a third line without end": (LITTLE + b"0]1", "2 lines; found 3"),
    "a byte order mark": (b"\xef\xbb\xbf" + LITTLE, "line 1, column 1: byte 239"),
    "a letter beyond ASCII": (
        LITTLE.replace(b"ReLU", "ReLÜ".encode()),
        f"line 1, column {STRUCTURE.index('ReLU') + 4}: byte 195",
    ),
    "a null byte in the data": (LITTLE.replace(b"!", b"\0", 1), "line 2, column 1: byte 0"),
    "a tabulator": (LITTLE.replace(b";", b"\t", 1), f"line 1, column {STRUCTURE.index(';') + 1}: byte 9"),
    "a form feed instead of a line feed": (LITTLE.replace(b"\n", b"\f", 1), "byte 12"),
    "one layer too few in the data": (
        f"{STRUCTURE}\n{DATA.rpartition('!')[0]}\n".encode(),
        "the structure line has 5 layers, the data line 4",
    ),
    "neurons of a layer without weights": (
        with_field(3, "0]1;1;1;1;0"),
        "layer 3 (TNNetReLU) needs 0 neurons, found 1",
    ),
    "no neurons": (with_field(2, ""), f"layer 2 ({CONVOLUTION}) needs 2 neurons, found 0"),
    "a neuron too many": (
        with_field(2, FIELDS[2] + "[0]1;1;1;2;0;0"),
        f"layer 2 ({CONVOLUTION}) needs 2 neurons, found 3",
    ),
    "a lost bracket": (
        with_field(2, FIELDS[2].replace("]", ";", 1)),
        "layer 2, neuron 0 is not BIAS]1;SX;SY;D;WEIGHTS: no ]",
    ),
    "a doubled bracket": (with_field(2, FIELDS[2].replace("]", "]]", 1)), "layer 2, neuron 0"),
    "another version": (with_field(1, FIELDS[1].replace("]1;", "]3;")), "layer 1, neuron 0"),
    "a volume of other sizes": (
        with_field(1, FIELDS[1].replace("]1;4;1;2", "]1;2;1;4")),
        "needs a volume of 4;1;2, found 2;1;4",
    ),
    "sizes that are cut off": (with_field(1, "0]1;4;1"), "layer 1, neuron 0 is not BIAS]1;SX;SY;D;WEIGHTS: it ends"),
    "no weights behind the sizes": (with_field(1, "0]1;4;1;2"), "layer 1, neuron 0 needs 8 weights, found 0"),
    "a weight too few": (with_field(1, ";".join(TABLE[:-1])), "layer 1, neuron 0 needs 8 weights, found 7"),
    "a weight too many": (with_field(1, ";".join([*TABLE, "0"])), "layer 1, neuron 0 needs 8 weights, found 9"),
    "an empty weight": (with_last(""), "layer 1, neuron 0: weight 7 is ''"),
    "a weight that is no number": (
        with_field(1, ";".join([*TABLE[:6], "nan", *TABLE[7:]])),
        "layer 1, neuron 0: weight 2 is 'nan'",
    ),
    "an infinite weight": (with_last("-Inf"), "weight 7 is '-Inf'"),
    "a weight beyond float32": (with_last("3.5e38"), "weight 7 is '3.5e38', which is beyond"),
    "a weight beyond any float": (with_last("1e9999"), "weight 7 is '1e9999', which is beyond"),
    "a weight with an underscore": (with_last("1_0"), "weight 7 is '1_0'"),
    "a weight with a space": (with_last(" 1"), "weight 7 is ' 1'"),
    "a weight with a comma": (with_last("0,5"), "weight 7 is '0,5'"),
    "two points": (with_last("1.2.3"), "weight 7 is '1.2.3'"),
    "an empty bias": (with_field(1, FIELDS[1][FIELDS[1].index("]") :]), "layer 1, neuron 0: the bias is ''"),
    "a bias that is no number": (with_field(1, "x" + FIELDS[1]), "layer 1, neuron 0: the bias is 'x"),
    "an infinite bias of the last neuron": (
        with_field(4, f"{FIELDS[4].split('[')[0]}[1e99]1;1;1;2;0;0"),
        "layer 4, neuron 1: the bias is '1e99'",
    ),
    "an unknown class": (with_layer(3, layer(2, "Tanh")), "layer 3: the class 'TNNetTanh' is not known"),
    "a class of other letters": (with_layer(3, layer(2, "relu")), "layer 3: the class 'TNNetrelu' is not known"),
    "seven integers": (with_layer(3, "2)TNNetReLU:0;0;0;0;0;0;0::0;0;0;0;0;0;0;0"), "layer 3 states 7 integers"),
    "nine floats": (with_layer(3, "2)TNNetReLU:0;0;0;0;0;0;0;0::0;0;0;0;0;0;0;0;0"), "layer 3 states 9 floats"),
    "no floats": (with_layer(3, "2)TNNetReLU:0;0;0;0;0;0;0;0:"), "layer 3 of the structure line is not"),
    "a fifth part": (with_layer(3, layer(2, "ReLU") + ":"), "layer 3 of the structure line is not"),
    "no predecessor": (with_layer(3, layer(2, "ReLU")[1:]), "layer 3: predecessor '' is not an integer"),
    "a predecessor with a zero before it": (with_layer(3, "0" + layer(2, "ReLU")), "layer 3: predecessor '02'"),
    "an integer of letters": (with_layer(2, layer(1, "PointwiseConvLinear", "0x2;1;0;1")), "layer 2: integer '0x2'"),
    "an integer beyond 32 bits": (
        with_layer(2, layer(1, "PointwiseConvLinear", "4294967298;1;0;1")),
        "layer 2: integer 4294967298 does not fit",
    ),
    "an integer of many digits": (
        with_layer(2, layer(1, "PointwiseConvLinear", f"{'9' * 5000};1;0;1")),
        "layer 2: integer 9999",
    ),
    "a list that ends in a separator": (with_layer(3, layer(2, "Sum", listed="2;")), "layer 3: list entry ''"),
    "a float that is no number": (with_layer(3, layer(2, "ReLU", floats="inf")), "layer 3: float 0 is 'inf'"),
    "an empty layer": (f"{STRUCTURE}#\n{DATA}!\n".encode(), "layer 5 of the structure line is not"),
}

NOT_SUPPORTED = {
    "a bidirectional window": (layer(1, "ScaledDotProductAttention", "2;1;0;1"), "the bidirectional window is 1"),
    "a segment mask": (layer(1, "ScaledDotProductAttention", "2;1;0;0;1"), "the segment mask is 1"),
    "a soft cap": (layer(1, "ScaledDotProductAttention", "2;1", floats="30"), "the soft cap of scores is 30"),
    "a negative window": (layer(1, "ScaledDotProductAttention", "2;1;-1"), "the window is -1"),
    "another mask than causal": (layer(1, "ScaledDotProductAttention", "2;2"), "the causal mask is 2"),
    "a rotary scaling mode": (layer(1, "RotaryEmbedding", "1", floats="10000"), "the scaling mode is 1"),
    "a rotary flag": (layer(1, "RotaryEmbedding", "0;0;1", floats="10000"), "the flag of a scaling mode is 1"),
    "a rotary base of zero": (layer(1, "RotaryEmbedding"), "the base is 0"),
    "a rotary factor": (layer(1, "RotaryEmbedding", floats="10000;4"), "float 1, which is not used, is 4"),
    "another mask of a softmax": (layer(1, "PointwiseSoftMax", "1;2"), "the mask NoForward is 2"),
    "another factor than -1": (layer(1, "Negate", floats="-2"), "the factor is -2"),
    "a wider kernel": (layer(1, "PointwiseConvLinear", "2;3;0;1"), "the kernel size is 3"),
    "a stride": (layer(1, "PointwiseConvReLU", "2;1;0;2"), "the stride is 2"),
    "an unknown flag": (layer(1, "ReLU", "0;0;0;0;0;0;0;1"), "integer 7, which is not used, is 1"),
    "an unknown mode of the embedding": (layer(1, "Embedding", "4;6;2"), "EncodeZero is 2"),
}


class TestDamage:
    """Each in words, with the place."""

    @pytest.mark.parametrize("name", DAMAGED)
    def test_damage_is_named(self, name: str) -> None:
        """With the line, or the layer and what in it."""
        data, words = DAMAGED[name]
        assert words in message(data)

    @pytest.mark.parametrize("name", NOT_SUPPORTED)
    def test_options_are_refused_not_ignored(self, name: str) -> None:
        """They would change the result."""
        text, words = NOT_SUPPORTED[name]
        with refuses(NetFormatError, "unsupported-option") as raised:
            parse_structure("#".join([layer(-1, "Input", "3;1;1"), layer(0, "Embedding", "4;6"), text]))
        assert words in str(raised.value)
        assert str(raised.value).startswith("layer 2 (TNNet")

    def test_line_ends_of_windows_are_refused(self) -> None:
        """With the number of the line that holds the first."""
        for data, line in ((LITTLE.replace(b"\n", b"\r\n"), 1), (LITTLE[:-1] + b"\r\n", 2)):
            with refuses(NetFormatError, "windows-line-end", match=f"line {line} "):
                parse_net(data)

    def test_a_file_cut_anywhere_is_refused(self) -> None:
        """Even without its last line feed only, and inside its last number."""
        first = WHOLE.index(b"\n")
        for end in range(1, len(WHOLE)):
            with refuses(NetFormatError, "wrong-line-count" if end == first + 1 else "cut-off"):
                parse_net(WHOLE[:end])

    def test_a_file_cut_and_ended_anywhere_is_refused(self) -> None:
        """A line feed behind the cut does not hide it, except where it only shortens the last decimal."""
        last = max(LITTLE.rfind(b";"), LITTLE.rfind(b"]")) + 1
        for end in range(len(LITTLE) - 1):
            data = LITTLE[:end] + b"\n"
            try:
                parse_net(data)
            except NetError:
                continue
            assert end > last, data

    def test_messages_stay_short(self) -> None:
        """Whatever stands in the file."""
        junk = "x" * 100_000
        for data in (
            with_layer(3, f"2)TNNet{junk}:0;0"),
            with_layer(3, junk),
            with_field(1, junk),
            junk.encode() + b"\n\n",
        ):
            assert len(message(data)) < 250
        for text in (layer(2, junk), layer(2, "ReLU", f"0;{junk}"), layer(2, "ReLU", floats=junk)):
            assert len(message(with_layer(3, text))) < 250


class TestClaims:
    """Sizes that a file claims are compared before they cost anything."""

    @pytest.mark.parametrize(
        "data",
        [
            # A table of a gigabyte and more, in the structure line, the data line, and both.
            with_layer(1, layer(0, "Embedding", f"{MOST};{MOST}")),
            with_field(1, FIELDS[1].replace("]1;4;1;2", f"]1;{MOST};{MOST};{MOST}")),
            with_layer(1, layer(0, "Embedding", "134217728;2")).replace(b"]1;4;1;2", b"]1;134217728;1;2"),
            # So many neurons, channels, tokens.
            with_layer(2, layer(1, "PointwiseConvLinear", f"{MOST};1;0;1")),
            with_layer(0, layer(-1, "Input", f"{MOST};1;{MOST}")),
            with_layer(3, layer(2, "InterleaveChannels", f"{MOST}")),
            # Separators without end.
            b"#" * 1_000_000 + b"\n\n",
            STRUCTURE.encode() + b"\n" + b"!" * 1_000_000 + b"\n",
            with_field(1, "[" * 1_000_000),
            with_field(1, "0]1;4;1;2;" + ";" * 1_000_000),
            with_layer(3, layer(2, "ReLU", ";" * 1_000_000)),
        ],
    )
    def test_a_claim_costs_nothing(self, data: bytes) -> None:
        """A few times the bytes of the file at most."""
        tracemalloc.start()
        try:
            message(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000 + 3 * len(data)


def swapped(source: random.Random, data: bytearray) -> None:
    """Exchange two stretches."""
    first, second = sorted(source.randrange(len(data)) for _ in range(2))
    width = source.randrange(1, 20)
    data[first : first + width], data[second : second + width] = (
        data[second : second + width],
        data[first : first + width],
    )


def replaced(source: random.Random, data: bytearray) -> None:
    """Set a byte to one of those that mean something."""
    data[source.randrange(len(data))] = source.choice(b"0123456789;:#!)][.-+eE \n\r\0NanTx\xff")


def inserted(source: random.Random, data: bytearray) -> None:
    """Insert a byte."""
    data.insert(source.randrange(len(data) + 1), source.choice(b"0123456789;:#!)][.-+eE\n"))


def deleted(source: random.Random, data: bytearray) -> None:
    """Take a stretch out."""
    start = source.randrange(len(data))
    del data[start : start + source.choice([1, 1, 1, 2, 5, 40])]


def doubled(source: random.Random, data: bytearray) -> None:
    """Repeat a stretch."""
    start = source.randrange(len(data))
    data[start:start] = data[start : start + source.choice([1, 2, 5, 40])]


MUTATIONS: list[Callable[[random.Random, bytearray], None]] = [swapped, replaced, inserted, deleted, doubled]


def mutated(data: bytes, seed: int) -> bytes:
    """Change a file in one to three places."""
    source = random.Random(seed)
    changed = bytearray(data)
    for _ in range(source.randrange(1, 4)):
        source.choice(MUTATIONS)(source, changed)
    return bytes(changed)


def check(data: bytes) -> bool:
    """Tell whether a file reads; what was read can be written, and read again as the same text."""
    try:
        net = parse_net(data)
    except NetError as error:
        assert str(error)
        return False
    text = format_net(net)
    assert text == format_net(parse_net(text))
    return True


class TestMutations:
    """Files changed at random read as a net, or raise an error of nets, and nothing else."""

    @pytest.mark.parametrize(
        "whole", [pytest.param(WHOLE, id="every class", marks=pytest.mark.exhaustive), pytest.param(LITTLE, id="small")]
    )
    def test_mutations_are_read_or_refused(self, whole: bytes) -> None:
        """Hundreds; both happen."""
        read = [check(mutated(whole, seed)) for seed in range(120)]
        assert {True, False} == set(read)

    def test_mutations_of_the_structure_are_read_or_refused(self) -> None:
        """Where a change is rarely harmless."""
        line = structure_line(EVERY_CLASS).encode("ascii")
        rest = WHOLE[len(line) :]
        read = [check(mutated(line, seed) + rest) for seed in range(200)]
        assert read.count(False) > 150

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("whole", [WHOLE, LITTLE], ids=["every class", "small"])
    def test_many_mutations_are_read_or_refused(self, whole: bytes) -> None:
        """Thousands."""
        for seed in range(1000, 2500):
            check(mutated(whole, seed))
