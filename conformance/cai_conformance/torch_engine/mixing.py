"""What every layer that mixes tokens is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.observing import Observer

NewRows = dict[str, torch.Tensor]
"""What a layer is to remember, by name, shape [batch, tokens, …]."""


class Mixer(nn.Module, ABC):
    """Attention of one kind or another, or a recurrence."""

    @property
    @abstractmethod
    def remembered(self) -> Remembered:
        """What it remembers of each token."""

    @abstractmethod
    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]; return that, and what is to be remembered of each token."""
