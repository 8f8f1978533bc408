"""Causal attention, and the mixer of grouped queries: several query heads share one head of keys and values.

Scores are (q·k) · (1/√w); a window W lets a query see the last W keys, its own included (Vaswani and others, 2017;
Beltagy, Peters and Cohan, "Longformer", 2020).

Of H query heads and G key and value heads, query head h reads head h div (H/G): heads 0 … H/G − 1 share the first one,
and so on. G = H is multi-head attention, G = 1 multi-query attention (Shazeer, 2019; Ainslie and others, "GQA", 2023).
Queries, keys and values have matrices of their own, without biases; the width of a head need not be d / H. Backwards,
what the heads of a group send to their shared key or value is added in ascending order of the heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.operations import matmul, reshape, scale, swap_axes
from cai_reference.autograd.probability import causal_softmax
from cai_reference.errors import LayerError
from cai_reference.layers import Observe, ignore
from cai_reference.layers.matrices import BiasFree, Units
from cai_reference.layers.rope import Rope, rotate


def attend(
    tape: Tape, query: Variable, key: Variable, value: Variable, window: int | None, observe: Observe = ignore
) -> Variable:
    """Return softmax(q kᵀ / √w) v over whole sequences [batch, heads, tokens, ·], causal, within the window."""
    # 1/√w is rounded, then multiplied with: not the bits of a division by √w
    factor = 1.0 / math.sqrt(query.shape[-1])
    scores = scale(tape, matmul(tape, query, swap_axes(tape, key, 2, 3)), factor)
    weights = causal_softmax(tape, scores, window)
    observe("weights", weights)
    return matmul(tape, weights, value)


def split_heads(tape: Tape, x: Variable, heads: int) -> Variable:
    """Turn [batch, tokens, heads · w] into [batch, heads, tokens, w]."""
    batch, tokens, width = x.shape
    return swap_axes(tape, reshape(tape, x, (batch, tokens, heads, width // heads)), 1, 2)


def merge_heads(tape: Tape, x: Variable) -> Variable:
    """Turn [batch, heads, tokens, w] into [batch, tokens, heads · w]."""
    batch, heads, tokens, width = x.shape
    return reshape(tape, swap_axes(tape, x, 1, 2), (batch, tokens, heads * width))


@dataclass(frozen=True)
class GroupedQueryAttention:
    """The mixer, for heads of width w.

    Attributes:
        query: width → heads · w.
        key: width → key_value_heads · w.
        value: width → key_value_heads · w.
        output: heads · w → width.
        heads: how many query heads there are.
        key_value_heads: how many heads of keys and values; divides `heads`.
        rope: how queries and keys are turned.
        window: how many keys a query sees, its own included; None for all.

    Raises:
        LayerError (key-value-heads-do-not-divide, window-too-small): the numbers do not fit.
    """

    query: BiasFree
    key: BiasFree
    value: BiasFree
    output: BiasFree
    heads: int
    key_value_heads: int
    rope: Rope
    window: int | None

    def __post_init__(self) -> None:
        check_groups(self.heads, self.key_value_heads)
        if self.window is not None and self.window < 1:
            raise LayerError("window-too-small", window=self.window)

    @classmethod
    def initialize(
        cls,
        name: str,
        width: int,
        heads: int,
        key_value_heads: int,
        head_width: int,
        rope: Rope,
        window: int | None,
        generator: Units,
    ) -> GroupedQueryAttention:
        """Draw query, key, value, output.

        Raises:
            LayerError (key-value-heads-do-not-divide, odd-rope-width): before anything is drawn.
            LayerError (window-too-small): the window is below 1.
        """
        check_groups(heads, key_value_heads)
        if head_width < 1 or head_width % 2:
            raise LayerError("odd-rope-width", width=head_width)
        return cls(
            BiasFree.initialize(f"{name}.query", width, heads * head_width, generator),
            BiasFree.initialize(f"{name}.key", width, key_value_heads * head_width, generator),
            BiasFree.initialize(f"{name}.value", width, key_value_heads * head_width, generator),
            BiasFree.initialize(f"{name}.output", heads * head_width, width, generator),
            heads,
            key_value_heads,
            rope,
            window,
        )

    @property
    def head_width(self) -> int:
        """The width w of a head."""
        return self.query.weight.shape[1] // self.heads

    def parameters(self) -> Iterator[Parameter]:
        """Yield query, key, value, output."""
        for part in (self.query, self.key, self.value, self.output):
            yield from part.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        query = rotate(tape, split_heads(tape, self.query(tape, x), self.heads), start, self.rope)
        key = rotate(tape, split_heads(tape, self.key(tape, x), self.key_value_heads), start, self.rope)
        value = split_heads(tape, self.value(tape, x), self.key_value_heads)
        observe("query", query)
        observe("key", key)
        observe("value", value)
        # query head h reads key head h div (H/G): each is repeated in place, not tiled
        key, value = (repeat_heads(tape, part, self.heads // self.key_value_heads) for part in (key, value))
        mixed = merge_heads(tape, attend(tape, query, key, value, self.window, observe))
        observe("mixture", mixed)
        return self.output(tape, mixed)


def repeat_heads(tape: Tape, x: Variable, times: int) -> Variable:
    """Repeat each head of [batch, heads, tokens, w] in place: 0, 0, …, 1, 1, …, and so on.

    The gradient of a head is the ascending sum over its copies.
    """
    batch, heads, tokens, width = x.shape

    def pullback(adjoint: Array) -> tuple[Array]:
        # ascending over the query heads of a group
        return (tape.arithmetic.sum(adjoint.reshape(batch, heads, times, tokens, width), axis=2),)

    # 0, 0, 1, 1: neighbours share a head
    return tape.record("repeat heads", np.repeat(x.value, times, axis=1), (x,), pullback)


def check_groups(heads: int, key_value_heads: int) -> None:
    """Refuse query heads that cannot be shared out evenly.

    Raises:
        LayerError (key-value-heads-do-not-divide): with both numbers.
    """
    if key_value_heads < 1 or heads < 1 or heads % key_value_heads:
        raise LayerError("key-value-heads-do-not-divide", heads=heads, key_value_heads=key_value_heads)
