"""A whole decoder as layers: input, embedding, blocks, hidden projection, heads.

The structure lines of all nine published phases were compared with those of the library, byte for byte. Combinations
that no phase has, such as grouped attention or several grouped heads, follow the same rules and were compared with
nothing.
"""

from __future__ import annotations

from cai_reference.models.decoder_configuration import DecoderConfiguration
from cai_reference.nets.builders.blocks import build_block
from cai_reference.nets.builders.grouped_convolution import project
from cai_reference.nets.builders.heads import build_heads
from cai_reference.nets.builders.layer_graph import LayerGraph
from cai_reference.nets.structure import LayerSpec


def build_decoder(configuration: DecoderConfiguration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder. Latent attention may do without rotary channels here (`rope` 0).

    Raises:
        HeadsDoNotDivide, OddRopeWidth, WindowTooSmall: the sizes do not fit.
    """
    sizes, graph = configuration, LayerGraph()
    x = graph.embedding(graph.input(sizes.context), sizes.vocabulary, sizes.width)
    for spec in sizes.mixers:
        x = build_block(graph, x, sizes, spec)
    hidden = project(graph, x, sizes.width, sizes.channels_per_group)
    build_heads(graph, hidden, sizes.vocabulary, sizes.futures, sizes.channels_per_group)
    return graph.specs
