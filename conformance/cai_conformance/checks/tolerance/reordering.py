"""The same model with its channels in another order: an equal function whose sums are taken in another order.

The residual channels are permuted everywhere: columns of the table and of what writes to the residual stream, entries
of the norms, rows of what reads it. So are the inner channels of the feed-forward layers. Nothing that a position, a
head or an id decides moves, so the logits are the same numbers but for rounding, and the difference is that rounding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Array
from cai_reference.splitmix import SplitMix64, shuffle

RESIDUAL: Final = (
    (re.compile(r"(token_)?embedding\.weight"), 1),
    (re.compile(r"(.*\.)?\w*norm\d?\.(gain|gamma|beta)"), 0),
    (re.compile(r".*\.mixer\.(slab|query|latent|rope_query|rope_key|inner)\.weight"), 0),
    (re.compile(r".*\.attention\.(query|key|value)\.weight"), 0),
    (re.compile(r".*\.(mixer|attention)\.output\.weight"), 1),
    (re.compile(r".*\.mixer\.output\.bias"), 0),
    (re.compile(r".*\.(feed_forward|ffn)\.(up|gate)\.weight"), 0),
    (re.compile(r".*\.(feed_forward|ffn)\.down\.weight"), 1),
    (re.compile(r".*\.feed_forward\.down\.bias"), 0),
    (re.compile(r"head\.hidden\.weight|output\.weight"), 0),
)
"""Names of the reference's tensors, and the axis on which their residual channels lie."""

INNER: Final = (
    (re.compile(r".*\.feed_forward\.up\.weight"), 1, 2),
    (re.compile(r".*\.feed_forward\.up\.bias"), 0, 2),
    (re.compile(r".*\.ffn\.(up|gate)\.weight"), 1, 1),
    (re.compile(r".*\.(feed_forward|ffn)\.down\.weight"), 0, 1),
)
"""The axis of the inner channels, and how many slabs of them lie behind each other."""

GROUPED: Final = re.compile(r".*\.(first|second)\.weight")
"""Channels of grouped projections belong to their groups and stay where they are."""


def can_reorder(tensors: Mapping[str, Array]) -> bool:
    """Tell whether a model's channels may be permuted."""
    return not any(GROUPED.fullmatch(name) for name in tensors)


def reordered(tensors: Tensors, seed: int, *, back: bool = False) -> Tensors:
    """Return a model's tensors with channels in an order drawn by `seed`; `back` undoes that, of gradients as well."""
    generator = SplitMix64(seed)
    table = next(value for name, value in tensors.items() if RESIDUAL[0][0].fullmatch(name))
    inner = max(value.shape[0] for name, value in tensors.items() if INNER[-1][0].fullmatch(name))
    channels, inner_channels = _order(table.shape[1], generator, back=back), _order(inner, generator, back=back)
    return {name: _moved(name, value, channels, inner_channels) for name, value in tensors.items()}


def _order(count: int, generator: SplitMix64, *, back: bool) -> list[int]:
    order = list(range(count))
    shuffle(order, generator)
    return [int(place) for place in np.argsort(order)] if back else order


def _moved(name: str, value: Array, channels: list[int], inner: list[int]) -> Array:
    for pattern, axis in RESIDUAL:
        if pattern.fullmatch(name):
            value = np.take(value, channels, axis=axis)
    for pattern, axis, slabs in INNER:
        if pattern.fullmatch(name):
            places = [slab * len(inner) + place for slab in range(slabs) for place in inner]
            value = np.take(value, places, axis=axis)
    return np.ascontiguousarray(value)
