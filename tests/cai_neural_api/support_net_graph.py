"""Nets for the tests of the interpreter: layers by hand, weights drawn, the measured samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, TypedDict, cast

import numpy as np

from cai_neural_api.format import NetFile, Neuron, parse_net
from cai_neural_api.format.data_line import layer_volumes
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.net.structure import NUMBERS, LayerSpec, layer_shapes
from cai_reference.arithmetic import Array
from support_nn_file import SAMPLES

Rows = list[list[float]]


def spec(
    kind: str, previous: int, integers: Sequence[int] = (), *, listed: Sequence[int] = (), number: float = 0.0
) -> LayerSpec:
    """Describe a layer; what is left out is 0."""
    filled = (*integers, *(0,) * (NUMBERS - len(integers)))
    return LayerSpec(f"TNNet{kind}", previous, filled, (number, *(0.0,) * (NUMBERS - 1)), tuple(listed))


def source(tokens: int, depth: int = 1) -> LayerSpec:
    """Describe the input."""
    return spec("Input", -1, (tokens, 1, depth))


def convolution(previous: int, outputs: int, *, suppressed: int = 0, kind: str = "PointwiseConvLinear") -> LayerSpec:
    """Describe a dense convolution."""
    return spec(kind, previous, (outputs, 1, 0, 1, suppressed))


def grouped(previous: int, outputs: int, groups: int, *, suppressed: int = 0) -> LayerSpec:
    """Describe a grouped convolution."""
    return spec("GroupedPointwiseConvLinear", previous, (outputs, 1, 0, 1, suppressed, groups))


def attention(previous: int, width: int, *, causal: int = 1, window: int = 0) -> LayerSpec:
    """Describe an attention layer."""
    return spec("ScaledDotProductAttention", previous, (width, causal, window))


def drawn(specs: Sequence[LayerSpec], seed: int = 3) -> Net:
    """Make a net of these layers, with weights between -1 and 1 that single precision holds."""
    generator = np.random.default_rng(seed)

    def numbers(count: int) -> Array:
        return generator.integers(-255, 256, count) / 256.0

    specs = tuple(specs)
    neurons = [
        tuple(
            Neuron(float(numbers(1)[0]), numbers(volume.weights), volume.shape)
            for volume in volumes
            for _ in range(volume.count)
        )
        for volumes in layer_volumes(specs, layer_shapes(specs))
    ]
    return Net.from_file(NetFile(specs, tuple(neurons)))


def values(*shape: int, seed: int = 11) -> Array:
    """Draw numbers between -2 and 2."""
    return np.random.default_rng(seed).integers(-512, 513, shape) / 256.0


def weights_of(net: Net, layer: int) -> tuple[list[Rows], list[float]]:
    """Return the weights of a layer, every array as rows, and its biases."""
    learned = net.layers[layer].learned
    assert learned is not None
    return [np.atleast_2d(array).tolist() for array in learned.weights], learned.biases.tolist()


def streamed(session: NetSession, ids: Sequence[int], cuts: Sequence[int]) -> list[Array]:
    """Feed ids in pieces that end at the cuts; return the outputs of all layers, the pieces joined."""
    ends = [0, *cuts, len(ids)]
    steps = [session.step(ids[first:end], first) for first, end in pairwise(ends) if first < end]
    return [np.concatenate(pieces) for pieces in zip(*steps, strict=True)]


# ── samples ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SESSION_EDGE: Final = SAMPLES / "session_edge.json"


class Forward(TypedDict):
    """An input and the rows that the library gave."""

    input: list[int]
    output: Rows


class Decode(TypedDict):
    """A prompt, and what the library's arms made of it."""

    prompt: list[int]
    greedy_full: list[int]
    greedy_session: list[int]
    session_rows: Rows


class Counts(TypedDict):
    """What the library's session collected."""

    sdpa: int
    ssm: int
    rope: int


class DraftDecode(TypedDict, total=False):
    """What the draft's other two arms made of a prompt."""

    prompt: list[int]
    net_incremental: list[int]
    width2: list[int]


class Sample(TypedDict):
    """What the library answered about a net."""

    count_weights: int
    forward: list[Forward]
    session: Counts
    decode: list[Decode]
    draft_decode: list[DraftDecode]


class EdgeStep(TypedDict):
    """One step of the session samples."""

    token: int
    pos: int
    cache_len: int
    row: list[float]


class Training(TypedDict):
    """The part of the training samples that is needed here."""

    stories: list[list[int]]


Neurons = list[tuple[float, list[float]]]


def sample(kind: str) -> Sample:
    """Read what the library answered."""
    return cast(Sample, json.loads((SAMPLES / f"{kind}.json").read_text("utf-8")))


@cache
def sample_net(kind: str) -> Net:
    """Read a sample net, which tests share and do not change."""
    return Net.from_file(parse_net((SAMPLES / f"{kind}.nn").read_bytes()))


def sample_stories(kind: str) -> list[list[int]]:
    """Read the training stories of a sample."""
    training: Training = json.loads((SAMPLES / f"{kind}.train.json").read_text("utf-8"))
    return training["stories"]


def sample_gradients(kind: str) -> dict[int, Neurons]:
    """Read the gradients that the library summed over the first two stories, a layer at a time."""
    layers: dict[str, Neurons] = json.loads((SAMPLES / f"{kind}.grad.json").read_text("utf-8"))["layers"]
    return {int(layer): neurons for layer, neurons in layers.items()}


def edge_steps(name: str) -> list[EdgeStep]:
    """Read one sequence of the session samples."""
    return cast(list[EdgeStep], json.loads(SESSION_EDGE.read_text("utf-8"))[name])
