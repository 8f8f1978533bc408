"""Multi-head latent attention as layers.

From the normed input come queries, a latent, from the latent keys and values, then rotary queries and one rotary key
that all heads share. Its negative added to it makes zeros, which fill up the values, so that a pack has three equal
parts: [Q_h, QR_h | K_h, KR | V_h, 0]. Behind attention the filled-up channels are cut off again. Only the query and
output projections are ever grouped (CAI NEURAL API, AddMultiHeadLatentAttention). With no rotary channels the layers
that make them vanish, and a pack is Q_h, K_h, V_h.
"""

from __future__ import annotations

from cai_reference.nets.builders.grouped_convolution import project
from cai_reference.nets.builders.layer_graph import LayerGraph
from cai_reference.nets.builders.multi_head_attention import channels_of


def attend_over_latent(
    graph: LayerGraph,
    source: int,
    heads: int,
    latent: int,
    rope: int,
    rope_base: float,
    channels_per_group: int | None,
) -> int:
    """Lay down latent attention with its output projection; `rope` 0 means no positions."""
    width = graph.depth(source)
    part = width // heads
    query = project(graph, source, width, channels_per_group)
    compressed = graph.pointwise(source, latent)
    key = graph.pointwise(compressed, width)
    value = graph.pointwise(compressed, width)
    rope_query = rope_key = zeros = -1
    if rope:
        rope_query = graph.pointwise(source, heads * rope)
        rope_key = graph.rotary(graph.pointwise(source, rope), rope_base)
        zeros = graph.add([rope_key, graph.negate(rope_key)])
    outputs = []
    for head in range(heads):
        parts = [graph.split(whole, channels_of(head, part)) for whole in (query, key, value)]
        if rope:
            turned = graph.rotary(graph.split(rope_query, channels_of(head, rope)), rope_base)
            parts = [parts[0], turned, parts[1], rope_key, parts[2], zeros]
        attended = graph.attention(graph.concatenate(parts), part + rope, None)
        outputs.append(graph.split(attended, channels_of(0, part)) if rope else attended)
    return project(graph, graph.concatenate(outputs), width, channels_per_group)
