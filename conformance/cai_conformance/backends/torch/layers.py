"""The layers of the PyTorch engine but for attention: norms, projections, heads, the diagonal recurrence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.functional import linear, silu

from cai_conformance.backends.torch.cache import Call, Past, Remembered
from cai_conformance.backends.torch.computing import Observer

NewRows = dict[str, torch.Tensor]
"""What a layer is to remember, by name, shape [batch, tokens, …]."""


class TorchMixer(nn.Module, ABC):
    """Attention of one kind or another, or a recurrence."""

    @property
    @abstractmethod
    def remembered(self) -> Remembered:
        """What it remembers of each token."""

    @abstractmethod
    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Mix [batch, tokens, width]; return that, and what is to be remembered of each token."""


class TorchDynamicTanh(nn.Module):
    """γ · tanh(α·x) + β, with vectors γ and β and one number α."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma, self.beta, self.alpha = (nn.Parameter(torch.empty(size)) for size in (width, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [..., width] to [..., width]."""
        return self.gamma * torch.tanh(self.alpha * x) + self.beta


class TorchGroupedStack(nn.Module):
    """Pointwise convolutions in groups, between which channels are shuffled.

    y = first(x), or, where groups are to talk, y = shuffled(first(x)). Where there are at least as many inputs as
    outputs, y = second(shuffled(first(x))) + first(x).
    """

    def __init__(self, inputs: int, outputs: int, groups: int, *, mix: bool) -> None:
        super().__init__()
        self.first = nn.Conv1d(inputs, outputs, 1, groups=groups)
        talking = mix and groups > 1
        self.shuffle = nn.ChannelShuffle(outputs // groups) if talking else None
        self.second = nn.Conv1d(outputs, outputs, 1, groups=groups) if talking and inputs >= outputs else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [batch, tokens, inputs] to [batch, tokens, outputs]."""
        output = first = self.first(x.mT)
        if self.shuffle is not None:
            output = self.shuffle(first)
        if self.second is not None:
            output = self.second(output) + first
        turned: torch.Tensor = output.mT
        return turned


def projection(inputs: int, outputs: int, channels: int | None, *, mix: bool = True) -> nn.Module:
    """Return a dense map, or, where a least number of channels a group is given, one in groups.

    There are as many groups as divide both widths and leave each group that many inputs.
    """
    if channels is None:
        return nn.Linear(inputs, outputs)
    most = max(1, min(inputs, outputs, inputs // channels))
    groups = next(count for count in range(most, 0, -1) if inputs % count == 0 == outputs % count)
    return TorchGroupedStack(inputs, outputs, groups, mix=mix)


class TorchVocabularyHead(nn.Module):
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


class TorchFuturesHead(nn.Module):
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


class TorchGatedFeedForward(nn.Module):
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


class TorchDiagonalSsm(TorchMixer):
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
