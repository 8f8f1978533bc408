"""A net that continues texts in a known way, as files: each of its ids has one that follows it, come what may."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cai_neural_api.builders import LayerGraph
from cai_neural_api.format import format_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net

CONTEXT, KNOWN = 12, 136
ENTRIES = (b" sat", b"cat", b"the", b"\xa9", b"\xc3")
SAT, CAT, THE, SECOND_HALF, FIRST_HALF, BEYOND = range(128, 134)
SPACE = ord(" ")

FOLLOWS = {
    THE: SPACE,
    SPACE: CAT,
    CAT: SAT,
    SAT: ord("."),
    ord("."): 1,
    ord("a"): FIRST_HALF,
    FIRST_HALF: SECOND_HALF,
    SECOND_HALF: ord("!"),
    ord("!"): ord("\n"),
    ord("\n"): 27,
    27: BEYOND,
    BEYOND: 0,
    ord("x"): ord("x"),
}
"""From an id to the one behind it; the net embeds these alone."""


@dataclass(frozen=True)
class TextNet:
    """The files of a net and of its vocabulary."""

    net: Path
    vocabulary: Path

    @property
    def arguments(self) -> tuple[str, ...]:
        """What a command is given."""
        return str(self.net), "--vocabulary", str(self.vocabulary)


def text_net(known: int = KNOWN, context: int = CONTEXT, futures: int = 1) -> Net:
    """Return the net: embeddings are one-hot, and a projection points at the id that follows."""
    graph = LayerGraph()
    x = graph.embedding(graph.input(context), known, len(FOLLOWS))
    heads = [graph.softmax(graph.pointwise(x, known), skips_derivative=True) for _ in range(futures)]
    if futures > 1:
        graph.concatenate(heads)
    net = Net.from_file(initialize(graph.specs, MersenneTwister(1)))
    table, projection = net.layers[1].learned, net.layers[2].learned
    assert table is not None and projection is not None
    for array in (*table.weights, *projection.weights):
        array[...] = 0.0
    for channel, (token, following) in enumerate(FOLLOWS.items()):
        if token < known and following < known:
            table.weights[0][token, channel] = 1.0
            projection.weights[0][following, channel] = 30.0
    return net


def write_text_net(
    folder: Path, *, known: int = KNOWN, context: int = CONTEXT, futures: int = 1, entries: tuple[bytes, ...] = ENTRIES
) -> TextNet:
    """Write both files into a folder."""
    files = TextNet(folder / "text.nn", folder / "vocabulary.txt")
    files.net.write_bytes(format_net(text_net(known, context, futures).to_file()))
    files.vocabulary.write_bytes(b"".join(entry + b"\n" for entry in entries))
    return files
