"""Keeping what is computed on the way, by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cai_reference.arithmetic import Array


@dataclass(frozen=True)
class Observer:
    """Takes values of a forward pass; they keep their batch axis, and tokens are their last axis but one.

    Attributes:
        kept: values by name, in the order of computing; None if nobody asks.
        prefix: stands in front of every name.
    """

    kept: dict[str, torch.Tensor] | None = None
    prefix: str = ""

    @property
    def active(self) -> bool:
        """Whether anybody asks."""
        return self.kept is not None

    def within(self, name: str) -> Observer:
        """Return an observer for a part of the model."""
        return Observer(self.kept, f"{self.prefix}{name}.")

    def __call__(self, name: str, value: torch.Tensor) -> None:
        """Keep a value."""
        if self.kept is not None:
            self.kept[self.prefix + name] = value


def stages_of_row(kept: dict[str, torch.Tensor], row: int, tokens: int) -> dict[str, Array]:
    """Return the values of one row of a batch, its padding cut off, in double precision."""
    stages: dict[str, Array] = {}
    for name, value in kept.items():
        own = value[row][..., :tokens, :]
        if name.endswith(".weights"):
            own = own[..., :tokens]
        stages[name] = as_array(own)
    return stages


def as_array(x: torch.Tensor) -> Array:
    """Return a copy of a tensor in double precision."""
    array: Array = x.detach().to("cpu", torch.float64, copy=True).contiguous().numpy()
    return array
