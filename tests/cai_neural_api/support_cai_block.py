"""The library's older transformer block, and the decoder of two such blocks that its documentation shows.

With f the signed square root (x where |x| ≤ 1, otherwise sign(x)·√|x|) and no biases anywhere::

    Q, K, V = f(W x)                                    projected first, then activated, in this order
    S[b, a] = f(Q_a · K_b) for a ≤ b, otherwise 0       a head; the output follows the keys, the sum runs over queries
    Y_b     = Σ_a S[b, a] V_a                           as a product of the transposed V and S
    r       = f(f(W f(concatenated Y)) + x)
    output  = f(f(W f(ReLU(W r))) + r)

There is neither softmax nor scaling. Measured on the library are the formulas, as a forward pass. The order of the
layers follows a public builder that says it mirrors this block (the attention of a KAN variant); no structure line of
the library was at hand to compare it with. The library's block has two more switches, normed queries and keys and a
learned multiplier a cell; only the published call, which leaves both off, is built here. Its documented example embeds
positions with the tokens; here the plain embedding stands in its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_neural_api.builders import LayerGraph, build_heads, channels_of
from cai_neural_api.net.structure import LayerSpec

ACTIVATION = "TNNetSignedSquareRoot1"


@dataclass(frozen=True)
class CaiConfiguration:
    """The sizes of a decoder of CAI blocks; heads, intermediate width and number of blocks default to the published."""

    vocabulary: int
    context: int
    width: int
    heads: int = 8
    intermediate: int = 2048
    blocks: int = 2


def build_cai_example(configuration: CaiConfiguration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder of CAI blocks: embedding, causal blocks, two projections with bias, softmax."""
    sizes, graph = configuration, LayerGraph()
    x = graph.embedding(graph.input(sizes.context), sizes.vocabulary, sizes.width)
    for _ in range(sizes.blocks):
        x = cai_block(graph, x, sizes.heads, sizes.intermediate, causal=True)
    build_heads(graph, graph.pointwise(x, sizes.width), sizes.vocabulary, futures=1)
    return graph.specs


def cai_block(graph: LayerGraph, source: int, heads: int, intermediate: int, *, causal: bool) -> int:
    """Lay down one block; causal means that products with later tokens are 0."""
    width = graph.depth(source)
    attended = _attend(graph, source, heads, causal=causal)
    residual = _activate(graph, graph.add([attended, source]))
    inner = _activate(graph, graph.pointwise(residual, intermediate, bias=False, relu=True))
    fed = _activate(graph, graph.pointwise(inner, width, bias=False))
    return _activate(graph, graph.add([fed, residual]))


def _attend(graph: LayerGraph, source: int, heads: int, *, causal: bool) -> int:
    width = graph.depth(source)
    projected = [graph.pointwise(source, width, bias=False) for _ in range(3)]
    query, key, value = (_activate(graph, part) for part in projected)
    outputs = []
    for head in range(heads):
        channels = channels_of(head, width // heads)
        first, second, third = (graph.split(part, channels) for part in (query, key, value))
        turned = graph.transpose(third)
        scores = _activate(graph, graph.dot_products(first, second, causal=causal))
        outputs.append(graph.dot_products(turned, scores, causal=False))
    mixed = _activate(graph, graph.concatenate(outputs))
    return _activate(graph, graph.pointwise(mixed, width, bias=False))


def _activate(graph: LayerGraph, source: int) -> int:
    return graph.same_shape(ACTIVATION, source)
