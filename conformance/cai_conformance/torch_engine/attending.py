"""Attention of new tokens to what is remembered and to each other, by PyTorch's own kernel."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from cai_conformance.torch_engine.cache import Past
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.observing import Observer


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
