"""What is stated about a model, in the words of a CONVENTION record; what is not stated is not compared.

How rotary frequencies and norms are computed, to the order of operations, is not stated: PyTorch decides that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.torch_engine.llama_settings import LlamaSettings
from cai_reference.models.decoder_configuration import AttentionSpec, DecoderConfiguration, LatentSpec

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


def cai_conventions(sizes: DecoderConfiguration) -> Mapping[str, str]:
    """Return what is stated about a CAI decoder."""
    windows = [spec.window for spec in sizes.mixers if isinstance(spec, AttentionSpec) and spec.window is not None]
    latent = any(isinstance(spec, LatentSpec) for spec in sizes.mixers)
    attends = latent or any(isinstance(spec, AttentionSpec) for spec in sizes.mixers)
    scale = "1/sqrt(head width + rope width)" if latent else "1/sqrt(head width)"
    return {
        **EVERYWHERE,
        "rope": "adjacent pairs" if attends else "none",
        "rope_base": f"{sizes.rope_base:.0f}" if attends else "none",
        "window": window(windows[0] if windows else None),
        "softmax_scale": f"product with {scale}" if attends else "none",
        "swiglu_gate": "second half",
        "norm": "dynamic tanh",
        "norm_eps": "none",
        "tie": "untied",
    }


def window(tokens: int | None) -> str:
    """Return how many tokens a layer sees."""
    return "none" if tokens is None else f"{tokens}, the current token included"
