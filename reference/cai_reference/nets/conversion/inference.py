"""What sizes a net must have been built with, if a decoder or a draft of the family is what it is.

Sizes are read off the layers that state them, without a look at whether the rest fits: the caller builds the net of
these sizes and compares. Three things a net does not tell. Without attention it knows no number of heads, and 1 stands
for it; without rotary layers no base, and 10000 does; and of all numbers of channels per group that give its groups,
the largest does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cai_reference.layers.projection import group_count
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.nets.conversion.errors import NotADecoder
from cai_reference.nets.shapes import Shape, layer_shapes
from cai_reference.nets.structure import LayerSpec

Specs = Sequence[LayerSpec]

DENSE = "TNNetPointwiseConvLinear"
GROUPED = "TNNetGroupedPointwiseConvLinear"
ATTENTION = "TNNetScaledDotProductAttention"


def infer_configuration(specs: Specs) -> DecoderConfiguration | DraftConfiguration:
    """Return the sizes.

    Raises:
        NotADecoder: a layer is missing that states one.
        EmptyDecoder, SizeTooSmall: what the net states is no size.
        NetError: the layers do not fit together.
    """
    shapes = layer_shapes(specs)
    context = _first(specs, "TNNetInput").integers[0]
    vocabulary, width = _first(specs, "TNNetEmbedding").integers[:2]
    if any(spec.kind == "TNNetTokenShift" for spec in specs):
        return DraftConfiguration(vocabulary, context, width, _first(specs, DENSE).integers[0])
    norms = _places(specs, "TNNetDyT")
    gates = _places(specs, "TNNetSwiGLU")
    for kind in ("TNNetDyT", "TNNetSwiGLU", "TNNetPointwiseSoftMax"):
        _first(specs, kind)
    # One norm a block where blocks are parallel, two where they are sequential.
    parallel = len(norms) == len(gates)
    starts = [*(norms if parallel else norms[::2]), len(specs)]
    blocks = [specs[start:end] for start, end in pairwise(starts)]
    return DecoderConfiguration(
        vocabulary,
        context,
        width,
        heads=next((count for block in blocks if (count := len(_places(block, ATTENTION)))), 1),
        feed_forward=_convolution_before(specs, gates[0]).integers[0] // 2,
        mixers=tuple(_mixer(block) for block in blocks),
        wiring=Wiring.PARALLEL if parallel else Wiring.SEQUENTIAL,
        channels_per_group=_channels_per_group(specs, shapes) if _places(specs, GROUPED) else None,
        futures=len(_places(specs, "TNNetPointwiseSoftMax")),
        rope_base=next((spec.floats[0] for spec in specs if spec.kind == "TNNetRotaryEmbedding"), 10000.0),
    )


def _mixer(block: Specs) -> MixerSpec:
    if _places(block, "TNNetDiagonalSSM"):
        return SsmSpec()
    attention = _first(block, ATTENTION)
    splits = _places(block, "TNNetSplitChannels")
    before = block[: splits[0]] if splits else block
    dense = [spec.integers[0] for spec in before if spec.kind == DENSE]
    # The first projection is that of the queries or of the slab; if it is grouped, it is not among the dense ones.
    if not _places(before, GROUPED):
        dense = dense[1:]
    if len(dense) < 3:
        return AttentionSpec(attention.integers[2] or None)
    return LatentSpec(dense[0], dense[4] if len(dense) > 4 else 0)


def _channels_per_group(specs: Specs, shapes: Sequence[Shape]) -> int:
    """Return the largest number of channels per group that gives every grouped convolution its number of groups.

    The second convolution of a stack takes its groups from the first, not from the rule, and is left out. Where no
    number fits, 1 does as well as any: the comparison will say which layer differs.
    """
    stated = [
        (shapes[spec.previous].depth, spec.integers[0], spec.integers[5])
        for spec in specs
        if spec.kind == GROUPED and specs[spec.previous].kind != "TNNetInterleaveChannels"
    ]
    largest = max((inputs for inputs, _, _ in stated), default=1)
    for channels in range(largest, 1, -1):
        if all(groups == group_count(inputs, outputs, channels) for inputs, outputs, groups in stated):
            return channels
    return 1


def _convolution_before(specs: Specs, place: int) -> LayerSpec:
    found = [spec for spec in specs[:place] if spec.kind in (DENSE, GROUPED)]
    if not found:
        raise NotADecoder(DENSE)
    return found[-1]


def _first(specs: Specs, kind: str) -> LayerSpec:
    places = _places(specs, kind)
    if not places:
        raise NotADecoder(kind)
    return specs[places[0]]


def _places(specs: Specs, kind: str) -> list[int]:
    return [place for place, spec in enumerate(specs) if spec.kind == kind]
