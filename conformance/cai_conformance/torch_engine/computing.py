"""The formats of numbers that models are loaded in, and the state of PyTorch while one computes.

| format | weights, activations, cache, logits | sums |
|---|---|---|
| `float64` | float64 | float64 |
| `float32` | float32 | float32 |
| `bfloat16` | bfloat16 | float32, rounded to bfloat16 at the end of each product, norm and softmax |

Rotary tables are made in float64 whatever the format is, and applied in float32 at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from cai_conformance.engines.description import Precision

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
