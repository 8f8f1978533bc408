"""From the rows of the last block to logits."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.functional import linear

from cai_conformance.torch_engine.observing import Observer


class VocabularyHead(nn.Module):
    """That of Llama models: a norm, then a matrix of its own, or the embedding table."""

    def __init__(self, norm: nn.Module, output: nn.Linear | None) -> None:
        super().__init__()
        self.norm, self.output = norm, output

    def forward(self, x: torch.Tensor, table: torch.Tensor, observe: Observer) -> list[torch.Tensor]:
        """Map [batch, tokens, width] to logits [batch, tokens, vocabulary], the only item of a list."""
        normed = self.norm(x)
        observe("final_norm", normed)
        logits = linear(normed, table) if self.output is None else self.output(normed)
        observe("logits.0", logits)
        return [logits]


class FuturesHead(nn.Module):
    """That of CAI decoders: one hidden map, then one output map for each predicted token."""

    def __init__(self, hidden: nn.Module, outputs: Iterable[nn.Module]) -> None:
        super().__init__()
        self.hidden, self.outputs = hidden, nn.ModuleList(outputs)

    def forward(self, x: torch.Tensor, table: torch.Tensor, observe: Observer) -> list[torch.Tensor]:
        """Map [batch, tokens, width] to logits [batch, tokens, vocabulary], one for each output."""
        hidden = self.hidden(x)
        observe("head.hidden", hidden)
        logits = [output(hidden) for output in self.outputs]
        for future, values in enumerate(logits):
            observe(f"logits.{future}", values)
        return logits
