"""Small nets for the library's training, and the fit steps that were measured on the library itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from cai_neural_api.builders import LayerGraph, build_heads
from cai_neural_api.format import NetFile, parse_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.net.structure import LayerSpec
from cai_neural_api.training import AdamSettings, LegacyTrainer
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import STRICT
from support_nn_file import KINDS, SAMPLES

VOCABULARY, CONTEXT, WIDTH = 12, 6, 4

needs_fit_samples = pytest.mark.skipif(
    not all((SAMPLES / f"{kind}.{end}").is_file() for kind in KINDS for end in ("nn", "train.json", "grad.json")),
    reason="the measured fit steps of the CAI library do not lie beside this checkout",
)

CONTENT_KEYS = {"mla": 5, "grouped": 28}
"""The layer that makes content keys of the latent. Its bias has gradient 0: what it learns is rounding noise."""

STORIES: tuple[tuple[int, ...], ...] = (
    (3, 7, 2, 9, 4),
    (5, 5, 1, 8, 2, 6, 10),
    (11, 2),
    (4, 4, 9, 1, 3, 2, 7, 8),
    (6,),
    (2, 10, 5, 3, 1, 9),
    (8, 1, 8, 1, 8, 1, 8),
)


@dataclass(frozen=True)
class FitSample:
    """What the library did with a net: the net, its stories, and the two runs of three steps."""

    file: NetFile
    stories: Sequence[Sequence[int]]
    runs: Sequence[dict[str, Any]]

    def batch(self, step: int) -> Sequence[Sequence[int]]:
        """Return the two stories of a step, counted from 0."""
        return self.stories[2 * step : 2 * step + 2]


def fit_sample(kind: str) -> FitSample:
    """Load the measured steps of one kind of net."""
    read = json.loads((SAMPLES / f"{kind}.train.json").read_text("ascii"))
    return FitSample(parse_net((SAMPLES / f"{kind}.nn").read_bytes()), read["stories"], read["runs"])


def tiny_specs(futures: int = 1, *, bias: bool = True, middle: Sequence[str] = ()) -> tuple[LayerSpec, ...]:
    """Return the layers embedding, whatever stands in the middle, projection, heads."""
    graph = LayerGraph()
    x = graph.embedding(graph.input(CONTEXT), VOCABULARY, WIDTH)
    for kind in middle:
        x = graph.same_shape(kind, x)
    build_heads(graph, graph.pointwise(x, WIDTH, bias=bias), VOCABULARY, futures)
    return graph.specs


def tiny_net(futures: int = 1, *, bias: bool = True, middle: Sequence[str] = (), seed: int = 5) -> Net:
    """Return such a net with initial weights, its table made a hundred times larger so that tokens matter."""
    net = Net.from_file(initialize(tiny_specs(futures, bias=bias, middle=middle), MersenneTwister(seed)))
    for layer in net.layers:
        if layer.learned is not None and layer.learned.weights[0].shape == (VOCABULARY, WIDTH):
            layer.learned.weights[0][...] *= 100.0
            break
    return net


def tiny_trainer(
    rate: float = 0.01, arithmetic: Arithmetic = STRICT, threads: int = 1, futures: int = 1
) -> LegacyTrainer:
    """Return a trainer of a fresh tiny net."""
    return LegacyTrainer(tiny_net(futures), AdamSettings(rate), arithmetic, threads)
