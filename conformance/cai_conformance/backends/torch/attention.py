"""Attention in PyTorch: rotary turns, the attended rows, and the three forms that the suites have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from cai_conformance.backends.torch.cache import Call, Past, Remembered
from cai_conformance.backends.torch.computing import Observer, widened
from cai_conformance.backends.torch.layers import NewRows, TorchMixer


@dataclass(frozen=True)
class TorchRope:
    """How features are turned.

    Attributes:
        base: of the frequencies.
        adjacent: whether features 2j and 2j + 1 make a pair, or j and j + width/2.
    """

    base: float
    adjacent: bool

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Turn [batch, tokens, width] or [batch, heads, tokens, width] at positions [batch, tokens]."""
        width = x.shape[-1]
        exponents = torch.arange(0, width, 2, dtype=torch.float64, device=x.device) / width
        frequencies = torch.pow(self.base, -exponents)
        angles = positions.to(torch.float64)[..., None] * frequencies
        if x.dim() == 4:
            angles = angles[:, None]
        wide = widened(x)
        cosines, sines = angles.cos().to(wide.dtype), angles.sin().to(wide.dtype)
        if self.adjacent:
            left, right = wide[..., 0::2], wide[..., 1::2]
        else:
            left, right = wide.chunk(2, dim=-1)
        turned = left * cosines - right * sines, left * sines + right * cosines
        joined = torch.stack(turned, dim=-1).flatten(-2) if self.adjacent else torch.cat(turned, dim=-1)
        return joined.to(x.dtype)


def visible(call: Call, past: Past, window: int | None) -> torch.Tensor:
    """Return which keys each query sees, shape [batch, 1, tokens, rows + tokens].

    A window counts the query's own token. Every query sees itself, padding too, so that no softmax is over nothing.
    """
    keys = torch.cat([past.indices, call.indices], dim=1)[:, None, :]
    queries = call.indices[:, :, None]
    seen = (keys >= 0) & (keys <= queries)
    if window is not None:
        seen &= queries - keys < window
    return seen[:, None]


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seen: torch.Tensor, observe: Observer
) -> torch.Tensor:
    """Return softmax(q kᵀ / √w) v, merged to [batch, tokens, features].

    Args:
        query: shape [batch, heads, tokens, w].
        key: shape [batch, groups, rows + tokens, w]; query head h reads group h div (heads / groups).
        value: shape [batch, groups, rows + tokens, features].
        seen: as `visible` returns it.
        observe: is shown the weights among the tokens of this call.
    """
    times = query.shape[1] // key.shape[1]
    if times > 1:
        key, value = key.repeat_interleave(times, dim=1), value.repeat_interleave(times, dim=1)
    if observe.active:
        # The kernel keeps its weights to itself.
        scores = (query @ key.mT) / math.sqrt(query.shape[-1])
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
        observe("weights", weights[..., -query.shape[2] :])
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return mixed.transpose(1, 2).flatten(2)


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Turn [batch, tokens, heads · w] into [batch, heads, tokens, w]."""
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def with_past(past: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Put rows [batch, rows, heads, w] in front of new heads [batch, heads, tokens, w]."""
    return torch.cat([past.transpose(1, 2), new], dim=2)


class SlabAttention(TorchMixer):
    """The mixer: `slab` maps width to 3 · width; it remembers turned keys and values."""

    def __init__(
        self, slab: nn.Module, output: nn.Module, width: int, heads: int, window: int | None, rope: TorchRope
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


class TorchGroupedQueryAttention(TorchMixer):
    """The mixer; it remembers turned keys and values of the shared heads."""

    def __init__(
        self, width: int, heads: int, key_value_heads: int, head_width: int, window: int | None, rope: TorchRope
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


class TorchLatentAttention(TorchMixer):
    """The mixer; scores are scaled by the root of the widths of both parts of a key together."""

    def __init__(
        self, query: nn.Module, output: nn.Module, width: int, heads: int, latent: int, turned: int, rope: TorchRope
    ) -> None:
        super().__init__()
        self.heads, self.widths, self.rope = heads, (latent, turned), rope
        self.query, self.output = query, output
        self.latent = nn.Linear(width, latent)
        self.key, self.value = nn.Linear(latent, width), nn.Linear(latent, width)
        self.rope_query, self.rope_key = nn.Linear(width, heads * turned), nn.Linear(width, turned)

    @property
    def remembered(self) -> Remembered:
        """A latent and a shared key a token."""
        latent, turned = self.widths
        return Remembered(None, {"latent": (latent,), "rope_key": (turned,)})

    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]."""
        new = {"latent": self.latent(x), "rope_key": self.rope(self.rope_key(x), call.positions)}
        for name, value in new.items():
            observe(name, value)
        latent, shared = (torch.cat([past.rows[name], value], dim=1) for name, value in new.items())
        turned = self.rope(heads_of(self.rope_query(x), self.heads), call.positions)
        query = torch.cat([heads_of(self.query(x), self.heads), turned], dim=-1)
        every = shared[:, None].expand(-1, self.heads, -1, -1)
        key = torch.cat([heads_of(self.key(latent), self.heads), every], dim=-1)
        observe("query", query)
        observe("key", key[:, :, -x.shape[1] :])
        mixed = attend(query, key, heads_of(self.value(latent), self.heads), visible(call, past, None), observe)
        observe("mixture", mixed)
        return self.output(mixed), new
