"""Formats, devices, and what is shown of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from cai_conformance.engine import Precision
from cai_reference.arithmetic import Array

FORMATS: Final = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
"""What a model can be loaded in, finest first."""

PRECISIONS: Final = {
    "float64": Precision.uniform("float64"),
    "float32": Precision.uniform("float32"),
    "bfloat16": Precision("bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16"),
}
"""What each format means for the parts of an engine."""


def widened(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32 where it is coarser than that, else as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


@contextmanager
def computing(*, recording: bool = False) -> Iterator[None]:
    """Compute on one thread and without TF32, with or without recording for gradients; put everything back afterwards.

    One thread, because sums are divided among threads, so that bits would depend on how many there are.
    """
    threads = torch.get_num_threads()
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    tf32 = products.allow_tf32, convolutions.allow_tf32
    reduced = products.allow_bf16_reduced_precision_reduction
    torch.set_num_threads(1)
    products.allow_tf32 = convolutions.allow_tf32 = False
    products.allow_bf16_reduced_precision_reduction = False
    try:
        with torch.set_grad_enabled(recording):
            yield
    finally:
        torch.set_num_threads(threads)
        products.allow_tf32, convolutions.allow_tf32 = tf32
        products.allow_bf16_reduced_precision_reduction = reduced


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
