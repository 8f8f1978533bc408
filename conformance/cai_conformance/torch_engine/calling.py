"""One call of a model: rows of tokens of different lengths, padded on the right to one rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

PADDING = 0


@dataclass(frozen=True)
class Call:
    """What a model is given. Padding goes on counting, so that it lies behind all that is real.

    Attributes:
        ids: shape [batch, tokens].
        indices: of the tokens in their sequences, shape [batch, tokens].
        positions: by which queries and keys are turned, shape [batch, tokens].
    """

    ids: torch.Tensor
    indices: torch.Tensor
    positions: torch.Tensor

    @classmethod
    def of(
        cls, rows: Sequence[Sequence[int]], lengths: Sequence[int], positions: Sequence[int], device: torch.device
    ) -> Call:
        """Return the call of some rows.

        Args:
            rows: the tokens of each.
            lengths: how many tokens stand before them in their sequences.
            positions: of the first token of each.
            device: where it is computed.
        """
        width = max(len(row) for row in rows)
        padded = [[*row, *[PADDING] * (width - len(row))] for row in rows]
        steps = torch.arange(width, device=device)
        firsts = torch.tensor([list(lengths), list(positions)], device=device)
        indices, turned = firsts[:, :, None] + steps
        return cls(torch.tensor(padded, device=device), indices, turned)
