"""What is stated about a model, in the words of a CONVENTION record; what is not stated is not compared.

How rotary frequencies and norms are computed, to the order of operations, is not stated: PyTorch decides that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.torch_engine.llama_settings import LlamaSettings

EVERYWHERE: Final = {"argmax": "lowest id"}


def llama_conventions(sizes: LlamaSettings) -> Mapping[str, str]:
    """Return what is stated about a Llama model."""
    return {
        **EVERYWHERE,
        "rope": "adjacent pairs" if sizes.adjacent else "half-split pairs",
        "window": window(sizes.window),
        "softmax_scale": "product with 1/sqrt(head width)",
        "swiglu_gate": "a matrix of its own",
        "norm_eps": f"{sizes.epsilon:.6f}, inside the root",
        "tie": "tied" if sizes.tied else "untied",
    }


def window(tokens: int | None) -> str:
    """Return how many tokens a layer sees."""
    return "none" if tokens is None else f"{tokens}, the current token included"
