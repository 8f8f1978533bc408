"""The projections of CAI decoders: linear maps with bias, dense or in groups."""

from __future__ import annotations

import torch
from torch import nn


class GroupedStack(nn.Module):
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
    return GroupedStack(inputs, outputs, groups, mix=mix)
