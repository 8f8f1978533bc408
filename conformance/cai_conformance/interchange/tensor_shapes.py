"""The shape of every parameter of a configuration, in registry order, without a model.

A file may claim any size. Its claim is compared with the tensors that it has, one by one, before memory is taken for a
model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from cai_conformance.interchange.configurations import Configuration
from cai_reference.layers.attention import check_heads
from cai_reference.layers.errors import OddRopeWidth
from cai_reference.layers.projection import group_count
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    Wiring,
)

Named: TypeAlias = tuple[str, tuple[int, ...]]


def tensor_shapes(configuration: Configuration) -> Iterator[Named]:
    """Yield name and shape of each parameter.

    Raises:
        MixerError: widths or heads do not fit.
    """
    sizes = configuration
    yield "embedding.weight", (sizes.vocabulary, sizes.width)
    if isinstance(sizes, DraftConfiguration):
        yield "shift.mix", (sizes.width,)
        yield from _dense("hidden", sizes.width, sizes.hidden)
        yield from _dense("output", sizes.hidden, sizes.vocabulary)
        return
    groups = sizes.channels_per_group
    for index, spec in enumerate(sizes.mixers):
        block = f"blocks.{index}"
        yield from _norm(f"{block}.norm1", sizes.width)
        yield from _mixer(f"{block}.mixer", sizes, spec)
        if sizes.wiring is Wiring.SEQUENTIAL:
            yield from _norm(f"{block}.norm2", sizes.width)
        yield from _projection(f"{block}.feed_forward.up", sizes.width, 2 * sizes.feed_forward, groups)
        yield from _projection(f"{block}.feed_forward.down", sizes.feed_forward, sizes.width, groups)
    yield from _projection("head.hidden", sizes.width, sizes.width, groups)
    for future in range(sizes.futures):
        yield from _projection(f"head.outputs.{future}", sizes.width, sizes.vocabulary, groups, mix=False)


def _mixer(name: str, sizes: DecoderConfiguration, spec: MixerSpec) -> Iterator[Named]:
    width, groups = sizes.width, sizes.channels_per_group
    if isinstance(spec, AttentionSpec):
        check_heads(width, sizes.heads)
        yield from _projection(f"{name}.slab", width, 3 * width, groups)
    elif isinstance(spec, LatentSpec):
        check_heads(width, sizes.heads)
        if spec.rope % 2:
            raise OddRopeWidth(spec.rope)
        yield from _projection(f"{name}.query", width, width, groups)
        yield from _dense(f"{name}.latent", width, spec.latent)
        yield from _dense(f"{name}.key", spec.latent, width)
        yield from _dense(f"{name}.value", spec.latent, width)
        yield from _dense(f"{name}.rope_query", width, sizes.heads * spec.rope)
        yield from _dense(f"{name}.rope_key", width, spec.rope)
    else:
        yield from _projection(f"{name}.inner", width, width, groups)
        for vector in ("a_raw", "b", "c", "e"):
            yield f"{name}.{vector}", (width,)
    yield from _projection(f"{name}.output", width, width, groups)


def _norm(name: str, width: int) -> Iterator[Named]:
    yield from ((f"{name}.gamma", (width,)), (f"{name}.beta", (width,)), (f"{name}.alpha", (1,)))


def _projection(
    name: str, inputs: int, outputs: int, channels_per_group: int | None, *, mix: bool = True
) -> Iterator[Named]:
    if channels_per_group is None:
        yield from _dense(name, inputs, outputs)
        return
    groups = group_count(inputs, outputs, channels_per_group)
    yield from _grouped(f"{name}.first", inputs, outputs, groups)
    if mix and groups > 1 and inputs >= outputs:
        yield from _grouped(f"{name}.second", outputs, outputs, groups)


def _dense(name: str, inputs: int, outputs: int) -> Iterator[Named]:
    yield from ((f"{name}.weight", (inputs, outputs)), (f"{name}.bias", (outputs,)))


def _grouped(name: str, inputs: int, outputs: int, groups: int) -> Iterator[Named]:
    yield from ((f"{name}.weight", (groups, inputs // groups, outputs // groups)), (f"{name}.bias", (outputs,)))
