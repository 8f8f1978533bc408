"""The norm of CAI decoders; that of Llama models is PyTorch's own."""

from __future__ import annotations

import torch
from torch import nn


class DynamicTanh(nn.Module):
    """γ · tanh(α·x) + β, with vectors γ and β and one number α."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma, self.beta, self.alpha = (nn.Parameter(torch.empty(size)) for size in (width, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [..., width] to [..., width]."""
        return self.gamma * torch.tanh(self.alpha * x) + self.beta
