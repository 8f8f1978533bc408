"""Grouped-query attention: several query heads share one head of keys and values.

Of H query heads and G key and value heads, query head h reads head h div (H/G): heads 0 … H/G − 1 share the first one,
and so on. G = H is multi-head attention, G = 1 multi-query attention (Shazeer, 2019; Ainslie and others, "GQA", 2023).
Queries, keys and values have matrices of their own, without biases; the width of a head need not be d / H. Backwards,
what the heads of a group send to their shared key or value is added in ascending order of the heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.layers.attention import attend, merge_heads, split_heads
from cai_reference.layers.bias_free import BiasFree
from cai_reference.layers.errors import KeyValueHeadsDoNotDivide, OddRopeWidth, WindowTooSmall
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.rope import Rope, rotate
from cai_reference.splitmix import SplitMix64


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
        KeyValueHeadsDoNotDivide, WindowTooSmall: the numbers do not fit.
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
            raise WindowTooSmall(self.window)

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
        generator: SplitMix64,
    ) -> GroupedQueryAttention:
        """Draw query, key, value, output.

        Raises:
            KeyValueHeadsDoNotDivide, OddRopeWidth: before anything is drawn.
            WindowTooSmall: the window is below 1.
        """
        check_groups(heads, key_value_heads)
        if head_width < 1 or head_width % 2:
            raise OddRopeWidth(head_width)
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
        query = self._turned(tape, split_heads(tape, self.query(tape, x), self.heads), start)
        key = self._turned(tape, split_heads(tape, self.key(tape, x), self.key_value_heads), start)
        value = split_heads(tape, self.value(tape, x), self.key_value_heads)
        observe("query", query)
        observe("key", key)
        observe("value", value)
        key, value = (repeat_heads(tape, part, self.heads // self.key_value_heads) for part in (key, value))
        mixed = merge_heads(tape, attend(tape, query, key, value, self.window, observe))
        observe("mixture", mixed)
        return self.output(tape, mixed)

    def _turned(self, tape: Tape, x: Variable, start: int) -> Variable:
        return rotate(tape, x, start, self.rope.base, self.rope.layout, self.rope.frequencies)


def repeat_heads(tape: Tape, x: Variable, times: int) -> Variable:
    """Repeat each head of [batch, heads, tokens, w] in place: 0, 0, …, 1, 1, …, and so on.

    The gradient of a head is the ascending sum over its copies.
    """
    batch, heads, tokens, width = x.shape

    def pullback(adjoint: Array) -> tuple[Array]:
        return (tape.arithmetic.sum(adjoint.reshape(batch, heads, times, tokens, width), axis=2),)

    return tape.record("repeat heads", np.repeat(x.value, times, axis=1), (x,), pullback)


def check_groups(heads: int, key_value_heads: int) -> None:
    """Refuse query heads that cannot be shared out evenly.

    Raises:
        KeyValueHeadsDoNotDivide: with both numbers.
    """
    if key_value_heads < 1 or heads < 1 or heads % key_value_heads:
        raise KeyValueHeadsDoNotDivide(heads, key_value_heads)
