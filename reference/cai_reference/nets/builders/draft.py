"""The token-shift draft as layers: embedding, shift, hidden projection, ReLU, logits, softmax (CAI NEURAL API)."""

from __future__ import annotations

from cai_reference.models.decoder_configuration import DraftConfiguration
from cai_reference.nets.builders.heads import build_heads
from cai_reference.nets.builders.layer_graph import LayerGraph
from cai_reference.nets.structure import LayerSpec


def build_draft(configuration: DraftConfiguration) -> tuple[LayerSpec, ...]:
    """Return the seven layers of a draft."""
    sizes, graph = configuration, LayerGraph()
    x = graph.embedding(graph.input(sizes.context), sizes.vocabulary, sizes.width)
    hidden = graph.pointwise(graph.same_shape("TNNetTokenShift", x), sizes.hidden)
    build_heads(graph, graph.same_shape("TNNetReLU", hidden), sizes.vocabulary, futures=1)
    return graph.specs
