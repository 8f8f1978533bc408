"""The diagonal recurrence of CAI decoders: h ← a·h + b·x, y = c·h + e·x, a channel at a time, with a = σ(a_raw).

Remembered is the state behind each of the last tokens, so that a sequence can be cut back a little.
"""

from __future__ import annotations

import torch
from torch import nn

from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.mixing import Mixer, NewRows
from cai_conformance.torch_engine.observing import Observer


class DiagonalSsm(Mixer):
    """The mixer; it knows no positions."""

    def __init__(self, inner: nn.Module, output: nn.Module, width: int) -> None:
        super().__init__()
        self.inner, self.output, self.width = inner, output, width
        self.a_raw, self.b, self.c, self.e = (nn.Parameter(torch.empty(width)) for _ in range(4))

    @property
    def remembered(self) -> Remembered:
        """A state a token, of which the next one needs the newest."""
        return Remembered(1, {"state": (self.width,)})

    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]."""
        inner = self.inner(x)
        decay, driven = torch.sigmoid(self.a_raw), self.b * inner
        newest = past.indices == call.indices[:, :1] - 1
        state = past.rows["state"].masked_fill(~newest[..., None], 0.0).sum(dim=1)
        states = []
        for token in range(x.shape[1]):
            state = decay * state + driven[:, token]
            states.append(state)
        every = torch.stack(states, dim=1)
        scanned = self.c * every + self.e * inner
        observe("scanned", scanned)
        return self.output(scanned), {"state": every}
