"""Feed-forward layers that gate themselves by SiLU: of three matrices, or of a slab."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import silu

from cai_conformance.torch_engine.observing import Observer


class GatedFeedForward(nn.Module):
    """That of Llama models: (SiLU(x gate) · (x up)) down, without biases."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, observe: Observer) -> torch.Tensor:
        """Map [batch, tokens, width] to the same shape."""
        gated = silu(self.gate(x)) * self.up(x)
        observe("gated", gated)
        output: torch.Tensor = self.down(gated)
        return output


class SlabFeedForward(nn.Module):
    """That of CAI decoders: `up` makes a slab of two halves, of which the second one gates the first."""

    def __init__(self, up: nn.Module, down: nn.Module) -> None:
        super().__init__()
        self.up, self.down = up, down

    def forward(self, x: torch.Tensor, observe: Observer) -> torch.Tensor:
        """Map [batch, tokens, width] to the same shape."""
        linear, gate = self.up(x).chunk(2, dim=-1)
        gated = linear * silu(gate)
        observe("gated", gated)
        output: torch.Tensor = self.down(gated)
        return output
