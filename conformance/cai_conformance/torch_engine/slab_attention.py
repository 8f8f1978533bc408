"""Attention of CAI decoders: one slab of queries, keys and values, adjacent rotary pairs, perhaps a window."""

from __future__ import annotations

import torch
from torch import nn

from cai_conformance.torch_engine.attending import attend, heads_of, visible, with_past
from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.mixing import Mixer, NewRows
from cai_conformance.torch_engine.observing import Observer
from cai_conformance.torch_engine.rope import Rope


class SlabAttention(Mixer):
    """The mixer: `slab` maps width to 3 · width; it remembers turned keys and values."""

    def __init__(
        self, slab: nn.Module, output: nn.Module, width: int, heads: int, window: int | None, rope: Rope
    ) -> None:
        super().__init__()
        self.slab, self.output = slab, output
        self.width, self.heads, self.window, self.rope = width, heads, window, rope

    @property
    def remembered(self) -> Remembered:
        """A key and a value a token."""
        shape = (self.heads, self.width // self.heads)
        return Remembered(None if self.window is None else self.window - 1, {"key": shape, "value": shape})

    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]."""
        query, key, value = (heads_of(part, self.heads) for part in self.slab(x).chunk(3, dim=-1))
        query, key = self.rope(query, call.positions), self.rope(key, call.positions)
        observe("query", query)
        observe("key", key)
        observe("value", value)
        keys, values = with_past(past.rows["key"], key), with_past(past.rows["value"], value)
        mixed = attend(query, keys, values, visible(call, past, self.window), observe)
        observe("mixture", mixed)
        return self.output(mixed), {"key": key.transpose(1, 2), "value": value.transpose(1, 2)}
