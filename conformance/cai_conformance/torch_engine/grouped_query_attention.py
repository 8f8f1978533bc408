"""Attention of Llama models: four matrices without biases, heads that may share keys and values."""

from __future__ import annotations

import torch
from torch import nn

from cai_conformance.torch_engine.attending import attend, heads_of, visible, with_past
from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.mixing import Mixer, NewRows
from cai_conformance.torch_engine.observing import Observer
from cai_conformance.torch_engine.rope import Rope


class GroupedQueryAttention(Mixer):
    """The mixer; it remembers turned keys and values of the shared heads."""

    def __init__(
        self, width: int, heads: int, key_value_heads: int, head_width: int, window: int | None, rope: Rope
    ) -> None:
        super().__init__()
        self.heads, self.groups, self.head_width = heads, key_value_heads, head_width
        self.window, self.rope = window, rope
        self.query = nn.Linear(width, heads * head_width, bias=False)
        self.key = nn.Linear(width, key_value_heads * head_width, bias=False)
        self.value = nn.Linear(width, key_value_heads * head_width, bias=False)
        self.output = nn.Linear(heads * head_width, width, bias=False)

    @property
    def remembered(self) -> Remembered:
        """A key and a value a token."""
        shape = (self.groups, self.head_width)
        return Remembered(None if self.window is None else self.window - 1, {"key": shape, "value": shape})

    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]."""
        query = self.rope(heads_of(self.query(x), self.heads), call.positions)
        key = self.rope(heads_of(self.key(x), self.groups), call.positions)
        value = heads_of(self.value(x), self.groups)
        observe("query", query)
        observe("key", key)
        observe("value", value)
        keys, values = with_past(past.rows["key"], key), with_past(past.rows["value"], value)
        mixed = attend(query, keys, values, visible(call, past, self.window), observe)
        observe("mixture", mixed)
        return self.output(mixed), {"key": key.transpose(1, 2), "value": value.transpose(1, 2)}
