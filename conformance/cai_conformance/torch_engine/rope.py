"""Rotary positions: pairs of features are turned by position · base^(−2j/width)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cai_conformance.torch_engine.computing import widened


@dataclass(frozen=True)
class Rope:
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
