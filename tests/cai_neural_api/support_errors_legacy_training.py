"""One call for every error of the library's training, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable

from cai_neural_api.builders import LayerGraph
from cai_neural_api.errors import LegacyError
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.training import AdamSettings, FitSchedule, LegacyFit, LegacyTrainer
from cai_reference.arithmetic.instances import STRICT
from cai_reference.errors import CaiReferenceError
from support_legacy_training import CONTEXT, STORIES, VOCABULARY, WIDTH, tiny_trainer

Case = tuple[CaiReferenceError, Callable[[], object]]


def trained(*layers: Callable[[LayerGraph, int], int]) -> LegacyTrainer:
    """Return a trainer of an input with these layers behind it, each reading the one before."""
    graph = LayerGraph()
    last = graph.input(CONTEXT)
    for layer in layers:
        last = layer(graph, last)
    return LegacyTrainer(Net.from_file(initialize(graph.specs, MersenneTwister(1))), AdamSettings(0.1), STRICT)


def embedding(graph: LayerGraph, source: int) -> int:
    """Lay down an embedding."""
    return graph.embedding(source, VOCABULARY, WIDTH)


def two_embeddings(graph: LayerGraph, source: int) -> int:
    """Lay down two embeddings of which the second knows one id more, and their sum."""
    tables = [graph.embedding(source, vocabulary, WIDTH) for vocabulary in (VOCABULARY, VOCABULARY + 1)]
    return graph.add(tables)


def rectified(graph: LayerGraph, source: int) -> int:
    """Lay down a ReLU."""
    return graph.same_shape("TNNetReLU", source)


def projection(graph: LayerGraph, source: int) -> int:
    """Lay down a projection to the vocabulary."""
    return graph.pointwise(source, VOCABULARY)


def wider(graph: LayerGraph, source: int) -> int:
    """Lay down a projection to one id more."""
    return graph.pointwise(source, VOCABULARY + 1)


def doubled(graph: LayerGraph, source: int) -> int:
    """Lay down a projection to twice the vocabulary."""
    return graph.pointwise(source, 2 * VOCABULARY)


def softmax(graph: LayerGraph, source: int) -> int:
    """Lay down a softmax."""
    return graph.softmax(source, skips_derivative=True)


def fit(schedule: FitSchedule, threads: int = 1) -> LegacyFit:
    """Return a fit of a tiny net."""
    return LegacyFit(tiny_trainer(threads=threads), STORIES, schedule, MersenneTwister(1))


CASES: list[Case] = [
    (LegacyError("no-stories"), lambda: LegacyFit(tiny_trainer(), (), FitSchedule(), MersenneTwister(1))),
    (LegacyError("empty-story", story=1), lambda: tiny_trainer().step([(1, 2), ()])),
    (
        LegacyError("story-token-out-of-range", story=1, position=2, token=12, vocabulary=12),
        lambda: tiny_trainer().step([(1, 2), (3, 4, 12)]),
    ),
    (
        LegacyError("schedule-too-small", name="validation", value=5, least=6),
        lambda: fit(FitSchedule(3, 3, 1, 5), threads=3),
    ),
    (LegacyError("no-embedding"), lambda: trained(projection, softmax)),
    (LegacyError("embedding-elsewhere", layer=2, source=1), lambda: trained(rectified, embedding, projection, softmax)),
    (
        LegacyError("output-depth", depth=VOCABULARY + 1, vocabulary=VOCABULARY),
        lambda: trained(embedding, wider, softmax),
    ),
    (LegacyError("no-probabilities", layer=2, kind="TNNetPointwiseConvLinear"), lambda: trained(embedding, projection)),
    (
        LegacyError("vocabulary-mismatch", layer=2, found=13, other=1, expected=12),
        lambda: trained(two_embeddings, projection, softmax),
    ),
]

MORE: list[Case] = [
    (LegacyError("no-stories"), lambda: tiny_trainer().gradients([])),
    (LegacyError("no-stories"), lambda: tiny_trainer().evaluate([])),
    (
        LegacyError("story-token-out-of-range", story=0, position=0, token=-1, vocabulary=12),
        lambda: tiny_trainer().evaluate([(-1,)]),
    ),
    (LegacyError("schedule-too-small", name="threads", value=0, least=1), lambda: tiny_trainer(threads=0)),
    (
        LegacyError("schedule-too-small", name="batch", value=2, least=3),
        lambda: fit(FitSchedule(2, 8, 1, 6), threads=3),
    ),
    (
        LegacyError("schedule-too-small", name="samples", value=5, least=6),
        lambda: fit(FitSchedule(8, 5, 1, 6), threads=3),
    ),
    (LegacyError("schedule-too-small", name="epochs", value=0, least=1), lambda: fit(FitSchedule(8, 8, 0, 6))),
    (LegacyError("schedule-too-small", name="validation", value=1, least=2), lambda: fit(FitSchedule(8, 8, 1, 1))),
    (
        LegacyError("vocabulary-mismatch", layer=3, found=24, other=1, expected=12),
        lambda: trained(embedding, doubled, softmax),
    ),
    (LegacyError("no-probabilities", layer=3, kind="TNNetReLU"), lambda: trained(embedding, projection, rectified)),
]
"""Further calls, and further reasons."""
