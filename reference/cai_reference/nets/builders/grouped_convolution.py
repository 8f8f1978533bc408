"""Projections as layers: one dense convolution, or the auto-grouped stack.

The stack takes the largest number of groups G that divides inputs and outputs and leaves `channels_per_group` inputs to
each: grouped convolution, and for G > 1 an interleaving of step outputs / G. Where there are at least as many inputs as
outputs, a second grouped convolution and the sum with the first follow; where there are fewer, the interleaving is the
end (CAI NEURAL API, AddAutoGroupedPointwiseConv).
"""

from __future__ import annotations

from cai_reference.layers.projection import group_count
from cai_reference.nets.builders.layer_graph import LayerGraph


def project(graph: LayerGraph, source: int, outputs: int, channels_per_group: int | None, *, mix: bool = True) -> int:
    """Lay down a dense convolution, or an auto-grouped stack where a number of channels per group is given."""
    if channels_per_group is None:
        return graph.pointwise(source, outputs)
    return auto_grouped(graph, source, outputs, channels_per_group, mix=mix)


def auto_grouped(graph: LayerGraph, source: int, outputs: int, channels_per_group: int, *, mix: bool = True) -> int:
    """Lay down the stack. Without `mix` the groups do not talk: one grouped convolution and nothing behind it."""
    inputs = graph.depth(source)
    groups = group_count(inputs, outputs, channels_per_group)
    first = graph.grouped(source, outputs, groups)
    if not mix or groups == 1:
        return first
    interleaved = graph.interleave(first, outputs // groups)
    if inputs < outputs:
        return interleaved
    return graph.add([graph.grouped(interleaved, outputs, groups), first])
