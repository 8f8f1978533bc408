"""Reads `.nn` files of the CAI library and turns the decoders in them into descriptions for the slow oracle.

A loader for tests only: it knows the layers of the decoder family and its draft, and answers a file of another shape
with an AssertionError. Samples lie beside the checkout and are not part of this repository.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support_decoder_description import (
    Attention,
    Block,
    Decoder,
    Dense,
    Draft,
    Latent,
    Mixer,
    Model,
    Norm,
    Projection,
    StateSpace,
    Vector,
)

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "cai"
KINDS = ("phase1", "ssm", "mla", "grouped", "mtp", "draft")

needs_samples = pytest.mark.skipif(
    not all((SAMPLES / f"{kind}.{end}").is_file() for kind in KINDS for end in ("nn", "json")),
    reason="the sample nets of the CAI library do not lie beside this checkout",
)

CONV = "TNNetPointwiseConvLinear"
GROUPED = "TNNetGroupedPointwiseConvLinear"


@dataclass(frozen=True)
class Layer:
    """One layer: its numbers, predecessors (several for sums and concatenations), the channels of a split, neurons."""

    name: str
    integers: list[int]
    floats: list[float]
    predecessors: list[int]
    channels: list[int]
    neurons: list[tuple[float, Vector]]


def load_nn(path: Path) -> list[Layer]:
    """Read the structure line and the data line of a `.nn` file; a neuron is (bias, weights in raw order)."""
    structure, data = path.read_text("ascii").splitlines()
    return parse_layers(structure, [neurons(text) for text in data.split("!")])


def parse_layers(structure: str, values: Sequence[list[tuple[float, Vector]]]) -> list[Layer]:
    """Read a structure line, given the neurons of every layer."""
    layers = []
    for entry, learned in zip(structure.split("#"), values, strict=True):
        previous, rest = entry.split(")")
        name, integers, listed, floats = rest.split(":")
        numbers = [int(number) for number in listed.split(";")] if listed else []
        splits = name == "TNNetSplitChannels"
        layers.append(
            Layer(
                name=name,
                integers=[int(number) for number in integers.split(";")],
                floats=[float(number) for number in floats.split(";")],
                predecessors=[int(previous)] if splits or not numbers else numbers,
                channels=numbers if splits else [],
                neurons=learned,
            )
        )
    return layers


def neurons(text: str) -> list[tuple[float, Vector]]:
    """Read the neurons of one layer; a layer without any has an empty text."""
    return [neuron(part) for part in text.split("[")] if text else []


def neuron(text: str) -> tuple[float, Vector]:
    """Read BIAS]1;SX;SY;D;w0;w1;..."""
    bias, volume = text.split("]")
    version, size_x, size_y, depth, *weights = volume.split(";")
    assert (version, int(size_x) * int(size_y) * int(depth)) == ("1", len(weights))
    return float(bias), [float(weight) for weight in weights]


@dataclass
class Walk:
    """Reads layers in the order the builders create them."""

    layers: Sequence[Layer]
    at: int = 0

    def name(self, ahead: int = 0) -> str:
        """Return the class of a coming layer, empty behind the end."""
        index = self.at + ahead
        return self.layers[index].name if index < len(self.layers) else ""

    def take(self, name: str) -> Layer:
        """Move over one layer, which must be of this class."""
        assert name == self.name()
        self.at += 1
        return self.layers[self.at - 1]

    def take_all(self, *names: str) -> list[Layer]:
        """Move over every coming layer of these classes."""
        start = self.at
        while self.name() in names:
            self.at += 1
        return list(self.layers[start : self.at])

    def vectors(self, name: str) -> list[Vector]:
        """Read the neurons of a layer that uses no biases."""
        return [weights for _, weights in self.take(name).neurons]

    def dense(self, name: str) -> Dense:
        """Read a 1x1 convolution; one neuron per output channel becomes one column."""
        neurons = self.take(name).neurons
        columns = [weights for _, weights in neurons]
        return {
            "weight": [[column[k] for column in columns] for k in range(len(columns[0]))],
            "bias": [bias for bias, _ in neurons],
        }

    def projection(self) -> Projection:
        """Read a dense projection, or a grouped one with its interleave and second convolution where they follow."""
        if self.name() == CONV:
            return self.dense(CONV)
        start, groups = self.at, self.layers[self.at].integers[5]
        first = self.dense(GROUPED)
        interleaved = self.name() == "TNNetInterleaveChannels"
        second = None
        if interleaved:
            assert self.take("TNNetInterleaveChannels").integers[0] == len(first["bias"]) // groups
            if self.name() == GROUPED:
                second = self.dense(GROUPED)
                assert self.take("TNNetSum").predecessors == [start + 2, start]
        return {"groups": groups, "first": first, "second": second, "interleave": interleaved}

    def embedding(self) -> list[Vector]:
        """Read the input and the embedding table."""
        self.take("TNNetInput")
        layer = self.take("TNNetEmbedding")
        vocabulary, width = layer.integers[:2]
        table = layer.neurons[0][1]
        return [table[token * width : (token + 1) * width] for token in range(vocabulary)]

    def norm(self) -> Norm:
        """Read a dynamic-tanh norm."""
        gamma, beta, alpha = self.vectors("TNNetDyT")
        return {"gamma": gamma, "beta": beta, "alpha": alpha[0]}

    def heads(self) -> tuple[int, float, int | None]:
        """Read the split, rotated and attended heads up to their concatenation; return count, rope base and window."""
        layers = self.take_all(
            "TNNetSplitChannels",
            "TNNetRotaryEmbedding",
            "TNNetDeepConcat",
            "TNNetScaledDotProductAttention",
            "TNNetNegate",
            "TNNetSum",
        )
        attends = [layer for layer in layers if layer.name == "TNNetScaledDotProductAttention"]
        bases = {layer.floats[0] for layer in layers if layer.name == "TNNetRotaryEmbedding"} or {10000.0}
        windows = {layer.integers[2] for layer in attends}
        assert (1, 1) == (len(bases), len(windows))
        return len(attends), bases.pop(), windows.pop() or None

    def mixer(self) -> Mixer:
        """Read a mixer; what follows its first projection tells which."""
        first = self.projection()
        if self.name() == "TNNetSplitChannels":
            heads, base, window = self.heads()
            attention: Attention = {
                "kind": "attention",
                "heads": heads,
                "base": base,
                "window": window,
                "qkv": first,
                "output": self.projection(),
            }
            return attention
        if self.name() == "TNNetDiagonalSSM":
            a_raw, b, c, e = self.vectors("TNNetDiagonalSSM")
            state_space: StateSpace = {
                "kind": "ssm",
                "input": first,
                "a_raw": a_raw,
                "b": b,
                "c": c,
                "e": e,
                "output": self.projection(),
            }
            return state_space
        latent, key, value = self.projection(), self.projection(), self.projection()
        rotates = self.name() == CONV
        rope_query, rope_key = (self.projection(), self.projection()) if rotates else (None, None)
        heads, base, window = self.heads()
        assert window is None
        latent_attention: Latent = {
            "kind": "latent",
            "heads": heads,
            "base": base,
            "query": first,
            "latent": latent,
            "key": key,
            "value": value,
            "rope_query": rope_query,
            "rope_key": rope_key,
            "output": self.projection(),
        }
        return latent_attention

    def block(self) -> Block:
        """Read a block; a sequential one sums right behind its mixer."""
        norm, mixer = self.norm(), self.mixer()
        if self.name() == "TNNetSum":
            self.take("TNNetSum")
            second, up = self.norm(), self.projection()
            self.take("TNNetSwiGLU")
            down = self.projection()
            assert len(self.take("TNNetSum").predecessors) == 2
            return {
                "wiring": "sequential",
                "norm1": norm,
                "mixer": mixer,
                "norm2": second,
                "ffn": {"up": up, "down": down},
            }
        up = self.projection()
        self.take("TNNetSwiGLU")
        down = self.projection()
        assert len(self.take("TNNetSum").predecessors) == 3
        return {"wiring": "parallel", "norm1": norm, "mixer": mixer, "ffn": {"up": up, "down": down}}


def describe_decoder(layers: Sequence[Layer]) -> Decoder:
    """Describe a net of embedding, blocks and one or more heads."""
    walk = Walk(layers)
    embedding, blocks = walk.embedding(), []
    while walk.name() == "TNNetDyT":
        blocks.append(walk.block())
    hidden, outputs = walk.projection(), []
    while walk.name() in (CONV, GROUPED):
        outputs.append(walk.projection())
        walk.take("TNNetPointwiseSoftMax")
    if len(outputs) > 1:
        walk.take("TNNetDeepConcat")
    assert len(layers) == walk.at
    return {"embedding": embedding, "blocks": blocks, "head": {"hidden": hidden, "outputs": outputs}}


def describe_draft(layers: Sequence[Layer]) -> Draft:
    """Describe a token-shift draft."""
    walk = Walk(layers)
    embedding = walk.embedding()
    (mix,) = walk.vectors("TNNetTokenShift")
    hidden = walk.projection()
    walk.take("TNNetReLU")
    output = walk.projection()
    walk.take("TNNetPointwiseSoftMax")
    assert len(layers) == walk.at
    return {"embedding": embedding, "mix": mix, "hidden": hidden, "output": output}


def describe(layers: Sequence[Layer], kind: str) -> Model:
    """Describe a sample net: the draft by its own layers, every other kind as a decoder."""
    return describe_draft(layers) if kind == "draft" else describe_decoder(layers)
