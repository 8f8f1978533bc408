"""What the layers of a net say about it without being run: vocabulary, what a session collects, idle biases.

How much memory a net takes, told before any of it is asked for.

The context of a net is a number in its structure line that nothing else bears out: a damaged one may state any. What
grows with it is the outputs of a run over the whole context, the scores of its attention layers, and the caches of a
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cai_neural_api.errors import NetInputError
from cai_neural_api.net.graph import Net
from cai_neural_api.net.making import CONVOLUTIONS
from cai_neural_api.net.structure import JOINS, SELECTS, LayerSpec, Shape

EMBEDDING: Final = "TNNetEmbedding"
ATTENTION: Final = "TNNetScaledDotProductAttention"
RECURRENCE: Final = "TNNetDiagonalSSM"
ROTARY: Final = "TNNetRotaryEmbedding"
SWIGLU: Final = "TNNetSwiGLU"
SHIFT: Final = "TNNetTokenShift"
CONCATENATION: Final = "TNNetDeepConcat"


def embedding_vocabulary(specs: Sequence[LayerSpec]) -> int | None:
    """Return how many ids the first embedding knows; None of a net without one."""
    return next((spec.integers[0] for spec in specs if spec.kind == EMBEDDING), None)


def session_counts(specs: Sequence[LayerSpec]) -> tuple[int, int, int]:
    """Return how many attention caches, recurrences and rotary layers a streaming session collects."""
    attentions, recurrences, rotary = (
        sum(spec.kind == kind for spec in specs) for kind in (ATTENTION, RECURRENCE, ROTARY)
    )
    return attentions, recurrences, rotary


def shift_layers(specs: Sequence[LayerSpec]) -> tuple[int, ...]:
    """Return the indices of the token shifts, which no streaming session collects."""
    return tuple(index for index, spec in enumerate(specs) if spec.kind == SHIFT)


def constant_key_biases(specs: Sequence[LayerSpec], shapes: Sequence[Shape]) -> dict[int, tuple[int, ...]]:
    """Return the neurons whose bias only adds the same to every key, by layer: no output depends on it.

    A softmax over the keys does not change when every key gets the same vector on top, since each score of a query
    grows by the same number. So the gradient of such a bias is zero, and what an optimiser makes of its rounding
    errors is noise. A neuron is one of them if its channel is taken into the key part of attention layers, and nowhere
    else, through nothing but splits and concatenations; a rotation on the way would make it depend on the position.
    """
    uses = _channel_uses(specs, shapes)
    found: dict[int, tuple[int, ...]] = {}
    for index, spec in enumerate(specs):
        if spec.kind not in CONVOLUTIONS or spec.kind == "TNNetPointwiseConvReLU":
            continue
        neurons = tuple(channel for channel, use in enumerate(uses[index]) if use == {_KEY})
        if neurons:
            found[index] = neurons
    return found


_KEY: Final = "key"
_OTHER: Final = "other"


def _channel_uses(specs: Sequence[LayerSpec], shapes: Sequence[Shape]) -> list[list[set[str]]]:
    """Return, for every channel of every layer, where its value ends up unchanged: in keys, or in something else."""
    uses: list[list[set[str]]] = [[set() for _ in range(shape.depth)] for shape in shapes]
    uses[-1] = [{_OTHER} for _ in range(shapes[-1].depth)]
    for index in reversed(range(len(specs))):
        spec = specs[index]
        if spec.kind == SELECTS:
            for channel, source in enumerate(spec.listed):
                uses[spec.previous][source] |= uses[index][channel]
        elif spec.kind == CONCATENATION:
            channel = 0
            for source in spec.listed:
                for inner in range(shapes[source].depth):
                    uses[source][inner] |= uses[index][channel]
                    channel += 1
        elif spec.kind == ATTENTION:
            width = spec.integers[0]
            for channel, use in enumerate(uses[spec.previous]):
                use.add(_KEY if width <= channel < 2 * width else _OTHER)
        else:
            for source in spec.listed if spec.kind in JOINS else spec.inputs:
                for use in uses[source]:
                    use.add(_OTHER)
    return uses


MOST: Final = 1 << 32
"""So many bytes may be taken."""

VALUE: Final = 8
"""Bytes of a number."""


def check_run(net: Net) -> None:
    """Refuse a net whose run over a whole context takes too much memory.

    Raises:
        NetInputError (net-too-large): it does.
    """
    context = net.context
    scores = sum(spec.kind == ATTENTION for spec in net.specs) * context
    _check(net, context * (scores + sum(shape.depth for shape in net.shapes)))


def check_session(net: Net, capacity: int) -> None:
    """Refuse a net whose session takes too much memory with room for so many tokens.

    Raises:
        NetInputError (net-too-large): it does.
    """
    _check(net, capacity * sum(2 * spec.integers[0] for spec in net.specs if spec.kind == ATTENTION))


def _check(net: Net, values: int) -> None:
    if VALUE * values > MOST:
        raise NetInputError("net-too-large", context=net.context, needed=-(-VALUE * values >> 30), most=MOST >> 30)
