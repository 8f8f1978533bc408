"""The end of a decoder: one head, or several that predict several tokens.

A single head ends in a softmax that passes the error straight through, which is cross-entropy. Several heads each end
in a softmax that keeps its derivative, and stand side by side in one concatenation; trained by the same rule, they
minimise the Brier score (CAI NEURAL API, AddMultiTokenPrediction).
"""

from __future__ import annotations

from cai_reference.nets.builders.grouped_convolution import project
from cai_reference.nets.builders.layer_graph import LayerGraph


def build_heads(
    graph: LayerGraph, source: int, vocabulary: int, futures: int, channels_per_group: int | None = None
) -> int:
    """Lay down the output projections, which never mix their groups, and their softmaxes."""
    if futures == 1:
        return graph.softmax(_logits(graph, source, vocabulary, channels_per_group), skips_derivative=True)
    heads = [
        graph.softmax(_logits(graph, source, vocabulary, channels_per_group), skips_derivative=False)
        for _ in range(futures)
    ]
    return graph.concatenate(heads)


def _logits(graph: LayerGraph, source: int, vocabulary: int, channels_per_group: int | None) -> int:
    return project(graph, source, vocabulary, channels_per_group, mix=False)
