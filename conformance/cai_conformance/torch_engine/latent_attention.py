"""Latent attention: keys and values are made of one small latent, positions are told by a key that all heads share.

Remembered are the latent and the shared key; keys and values of earlier tokens are made again in every call.
"""

from __future__ import annotations

import torch
from torch import nn

from cai_conformance.torch_engine.attending import attend, heads_of, visible
from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.mixing import Mixer, NewRows
from cai_conformance.torch_engine.observing import Observer
from cai_conformance.torch_engine.rope import Rope


class LatentAttention(Mixer):
    """The mixer; scores are scaled by the root of the widths of both parts of a key together."""

    def __init__(
        self, query: nn.Module, output: nn.Module, width: int, heads: int, latent: int, turned: int, rope: Rope
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
