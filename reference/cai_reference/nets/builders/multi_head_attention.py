"""Multi-head attention over a slab of queries, keys and values.

First every head gets its pack of the slab: channels [h·w, (h+1)·w) of Q, of K and of V, with w = width / heads. Then,
head by head, Q and K are split off and rotated, V is split off, and the three are packed again for attention. The heads
are concatenated (CAI NEURAL API, AddMultiHeadSelfAttention with rotary positions, without its output projection).
"""

from __future__ import annotations

from cai_reference.nets.builders.layer_graph import LayerGraph


def attend_over_slab(graph: LayerGraph, slab: int, heads: int, window: int | None, rope_base: float) -> int:
    """Lay down causal attention; a window counts the current token, None sees everything before."""
    width = graph.depth(slab) // 3
    part = width // heads
    packs = [
        graph.split(slab, [offset + channel for offset in (0, width, 2 * width) for channel in channels_of(head, part)])
        for head in range(heads)
    ]
    outputs = []
    for pack in packs:
        query = graph.rotary(graph.split(pack, channels_of(0, part)), rope_base)
        key = graph.rotary(graph.split(pack, channels_of(1, part)), rope_base)
        value = graph.split(pack, channels_of(2, part))
        outputs.append(graph.attention(graph.concatenate([query, key, value]), part, window))
    return graph.concatenate(outputs)


def channels_of(head: int, width: int) -> range:
    """Return the channels that belong to a head."""
    return range(head * width, (head + 1) * width)
