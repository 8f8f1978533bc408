"""Decoder blocks: mixer and feed-forward layer around a residual stream, one behind the other or side by side.

Sequential: r = mixer(norm(x)) + x, then feed-forward(norm(r)) + r, the branch first in each sum. Parallel: one norm n,
and x + mixer(n) + feed-forward(n) in one sum of three. Local and global blocks differ in the window of their mixer only
(CAI NEURAL API, AddTransformerEncoderBlock and AddParallelTransformerBlock with DyT as the norm).
"""

from __future__ import annotations

from cai_reference.layers.attention import check_heads
from cai_reference.layers.errors import OddRopeWidth, WindowTooSmall
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    Wiring,
)
from cai_reference.nets.builders.grouped_convolution import project
from cai_reference.nets.builders.latent_attention import attend_over_latent
from cai_reference.nets.builders.layer_graph import LayerGraph
from cai_reference.nets.builders.multi_head_attention import attend_over_slab

NORM = "TNNetDyT"


def build_block(graph: LayerGraph, source: int, sizes: DecoderConfiguration, spec: MixerSpec) -> int:
    """Lay down one block.

    Raises:
        HeadsDoNotDivide, OddRopeWidth, WindowTooSmall: the sizes do not fit.
    """
    normed = graph.same_shape(NORM, source)
    mixed = _mix(graph, normed, sizes, spec)
    if sizes.wiring is Wiring.PARALLEL:
        return graph.add([source, mixed, _feed_forward(graph, normed, sizes)])
    residual = graph.add([mixed, source])
    return graph.add([_feed_forward(graph, graph.same_shape(NORM, residual), sizes), residual])


def _mix(graph: LayerGraph, source: int, sizes: DecoderConfiguration, spec: MixerSpec) -> int:
    groups = sizes.channels_per_group
    if isinstance(spec, AttentionSpec):
        check_heads(sizes.width, sizes.heads)
        if spec.window is not None and spec.window < 1:
            raise WindowTooSmall(spec.window)
        slab = project(graph, source, 3 * sizes.width, groups)
        mixed = attend_over_slab(graph, slab, sizes.heads, spec.window, sizes.rope_base)
        return project(graph, mixed, sizes.width, groups)
    if isinstance(spec, LatentSpec):
        check_heads(sizes.width, sizes.heads)
        if spec.rope < 0 or spec.rope % 2:
            raise OddRopeWidth(spec.rope)
        return attend_over_latent(graph, source, sizes.heads, spec.latent, spec.rope, sizes.rope_base, groups)
    inner = project(graph, source, sizes.width, groups)
    return project(graph, graph.same_shape("TNNetDiagonalSSM", inner), sizes.width, groups)


def _feed_forward(graph: LayerGraph, source: int, sizes: DecoderConfiguration) -> int:
    slab = project(graph, source, 2 * sizes.feed_forward, sizes.channels_per_group)
    return project(graph, graph.swiglu(slab), sizes.width, sizes.channels_per_group)
