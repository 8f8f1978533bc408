"""What one call does with which slots, and where each slot keeps its rows and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


SLACK = 8
"""How many tokens a layer that looks back a bounded way can always be cut back."""


@dataclass(frozen=True)
class Remembered:
    """What a layer remembers.

    Attributes:
        reach: how many earlier tokens it looks back at; None for all of them.
        shapes: of a row, by name.
    """

    reach: int | None
    shapes: Mapping[str, tuple[int, ...]]

    def rows(self, context: int) -> int:
        """Return how many rows are allocated for a sequence."""
        return context if self.reach is None else min(context, self.reach + SLACK)


@dataclass(frozen=True)
class Past:
    """What a layer remembers of the sequences of a call.

    Attributes:
        indices: of the tokens whose rows these are, shape [batch, rows]; −1 where there is none.
        rows: by name, shape [batch, rows, …]; zeros where there is none.
    """

    indices: torch.Tensor
    rows: Mapping[str, torch.Tensor]

    @classmethod
    def none(cls, remembered: Remembered, batch: int, dtype: torch.dtype, device: torch.device) -> Past:
        """Return the past of sequences that begin now."""
        indices = torch.zeros((batch, 0), dtype=torch.int64, device=device)
        rows = {
            name: torch.zeros((batch, 0, *shape), dtype=dtype, device=device)
            for name, shape in remembered.shapes.items()
        }
        return cls(indices, rows)


class LayerCache:
    """The rows of one layer for all slots."""

    def __init__(
        self, remembered: Remembered, slots: int, context: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._reach = remembered.reach
        self._rows = remembered.rows(context)
        self._held = torch.full((slots, self._rows), -1, dtype=torch.int64, device=device)
        self._buffers = {
            name: torch.zeros((slots, self._rows, *shape), dtype=dtype, device=device)
            for name, shape in remembered.shapes.items()
        }

    @property
    def bytes_a_slot(self) -> int:
        """How many bytes a slot has."""
        return sum(buffer[0].numel() * buffer.element_size() for buffer in self._buffers.values())

    def past(self, slots: torch.Tensor, longest: int) -> Past:
        """Return what is remembered of slots [batch], the longest of which has so many tokens."""
        places = min(longest, self._rows)
        indices = self._held[slots, :places]
        rows = {}
        for name, buffer in self._buffers.items():
            found = buffer[slots, :places]
            unowned = (indices < 0).reshape(*indices.shape, *(1,) * (found.dim() - 2))
            # Masked keys still enter products, as zero times what stands there: NaN would stay NaN.
            rows[name] = found.masked_fill(unowned, 0.0)
        return Past(indices, rows)

    def store(self, slot: int, first: int, rows: Mapping[str, torch.Tensor]) -> None:
        """Remember the rows [tokens, …] of tokens from index `first` on."""
        tokens = next(iter(rows.values())).shape[0]
        indices = torch.arange(first, first + tokens, device=self._held.device)[-self._rows :]
        places = indices % self._rows
        for name, buffer in self._buffers.items():
            buffer[slot, places] = rows[name][-self._rows :]
        self._held[slot, places] = indices

    def can_be_cut(self, slot: int, length: int) -> bool:
        """Tell whether everything that the token at index `length` looks back at is still there."""
        oldest = 0 if self._reach is None else max(0, length - self._reach)
        return set(range(oldest, length)) <= set(self._held[slot].tolist())

    def cut(self, slot: int, length: int) -> None:
        """Forget the tokens from index `length` on; their rows stay where they are, owned by none."""
        held = self._held[slot]
        held[held >= length] = -1

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds."""
        for tensor in (self._held, *self._buffers.values()):
            tensor[target] = tensor[source].clone()

    def poison(self, value: float) -> None:
        """Fill every row that no token owns."""
        unowned = self._held < 0
        for buffer in self._buffers.values():
            buffer[unowned] = value
