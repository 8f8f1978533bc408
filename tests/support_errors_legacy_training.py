"""One call for every error of the library's training, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable

from cai_reference.arithmetic import STRICT
from cai_reference.errors import CaiReferenceError
from cai_reference.legacy.initialization import initialize
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.training import AdamSettings, FitSchedule, LegacyFit, LegacyTrainer, errors
from cai_reference.nets.builders.layer_graph import LayerGraph
from cai_reference.nets.graph.net import Net
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
    (errors.NoStories(), lambda: LegacyFit(tiny_trainer(), (), FitSchedule(), MersenneTwister(1))),
    (errors.EmptyStory(1), lambda: tiny_trainer().step([(1, 2), ()])),
    (errors.StoryTokenOutOfRange(1, 2, 12, 12), lambda: tiny_trainer().step([(1, 2), (3, 4, 12)])),
    (errors.ScheduleTooSmall("validation", 5, 6), lambda: fit(FitSchedule(3, 3, 1, 5), threads=3)),
    (errors.NoEmbedding(), lambda: trained(projection, softmax)),
    (errors.EmbeddingElsewhere(2, 1), lambda: trained(rectified, embedding, projection, softmax)),
    (errors.OutputDepth(VOCABULARY + 1, VOCABULARY), lambda: trained(embedding, wider, softmax)),
    (errors.NoProbabilities(2, "TNNetPointwiseConvLinear"), lambda: trained(embedding, projection)),
    (errors.VocabularyMismatch(2, 13, 1, 12), lambda: trained(two_embeddings, projection, softmax)),
]

MORE: list[Case] = [
    (errors.NoStories(), lambda: tiny_trainer().gradients([])),
    (errors.NoStories(), lambda: tiny_trainer().evaluate([])),
    (errors.StoryTokenOutOfRange(0, 0, -1, 12), lambda: tiny_trainer().evaluate([(-1,)])),
    (errors.ScheduleTooSmall("threads", 0, 1), lambda: tiny_trainer(threads=0)),
    (errors.ScheduleTooSmall("batch", 2, 3), lambda: fit(FitSchedule(2, 8, 1, 6), threads=3)),
    (errors.ScheduleTooSmall("samples", 5, 6), lambda: fit(FitSchedule(8, 5, 1, 6), threads=3)),
    (errors.ScheduleTooSmall("epochs", 0, 1), lambda: fit(FitSchedule(8, 8, 0, 6))),
    (errors.ScheduleTooSmall("validation", 1, 2), lambda: fit(FitSchedule(8, 8, 1, 1))),
    (errors.VocabularyMismatch(3, 24, 1, 12), lambda: trained(embedding, doubled, softmax)),
    (errors.NoProbabilities(3, "TNNetReLU"), lambda: trained(embedding, projection, rectified)),
]
"""Further calls, and further reasons."""
