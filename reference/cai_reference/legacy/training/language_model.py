"""Which nets read ids and score ids, and which of them can be trained on stories.

The loop of the library would take any net. Its pairs, however, make one-hot rows of ids, and its report reads outputs
as probabilities, so that a net with another end would be trained towards something that nobody meant.
"""

from __future__ import annotations

from cai_reference.legacy.training.errors import (
    EmbeddingElsewhere,
    NoEmbedding,
    NoProbabilities,
    OutputDepth,
    VocabularyMismatch,
)
from cai_reference.nets.graph.layers.activations import Softmax
from cai_reference.nets.graph.layers.channels import Concatenation
from cai_reference.nets.graph.layers.embedding import Embedding
from cai_reference.nets.graph.net import Net


def language_model(net: Net) -> tuple[int, int]:
    """Return the vocabulary of a net, and for how many future tokens it scores every id of it.

    Raises:
        NotALanguageModel: a leaf that says why it is none; the end may be something else than a softmax.
    """
    embeddings = _embeddings(net)
    if not embeddings:
        raise NoEmbedding
    first, vocabulary = embeddings[0]
    for index, known in embeddings:
        source = net.specs[index].inputs[0]
        if source:
            raise EmbeddingElsewhere(index, source)
        if known != vocabulary:
            raise VocabularyMismatch(index, known, first, vocabulary)
    depth = net.shapes[-1].depth
    if depth % vocabulary:
        raise OutputDepth(depth, vocabulary)
    return vocabulary, depth // vocabulary


def require_probabilities(net: Net) -> None:
    """Make sure that a language model ends in a softmax, or in a concatenation of one softmax a future token.

    Raises:
        NoProbabilities: it does not.
        VocabularyMismatch: a softmax is over another number of ids than the embedding.
    """
    last = len(net.layers) - 1
    ends = net.specs[last].inputs if isinstance(net.layers[last], Concatenation) else (last,)
    if not all(isinstance(net.layers[index], Softmax) for index in ends):
        raise NoProbabilities(last, net.specs[last].kind)
    first, vocabulary = _embeddings(net)[0]
    for index in ends:
        if net.shapes[index].depth != vocabulary:
            raise VocabularyMismatch(index, net.shapes[index].depth, first, vocabulary)


def _embeddings(net: Net) -> list[tuple[int, int]]:
    """Return each embedding with the ids that it knows."""
    return [
        (index, net.specs[index].integers[0]) for index, layer in enumerate(net.layers) if isinstance(layer, Embedding)
    ]
