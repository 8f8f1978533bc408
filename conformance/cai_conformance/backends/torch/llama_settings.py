"""The settings of a Hugging Face folder, and the conventions that a model of them follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec

ARCHITECTURES: Final = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"}
EXPECTED: Final = {
    "hidden_act": "silu",
    "rope_scaling": None,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "pretraining_tp": 1,
}
"""Settings that models are not made for here with any other value."""


@dataclass(frozen=True)
class LlamaSettings:
    """The sizes of a Llama model, as the reference's configuration has them.

    Attributes:
        window: how many tokens each layer sees, the current one included; None for all.
        adjacent: whether features 2j and 2j + 1 are turned together, or j and j + width/2.
    """

    vocabulary: int
    context: int
    width: int
    heads: int
    key_value_heads: int
    head_width: int
    feed_forward: int
    layers: int
    window: int | None
    tied: bool
    rope_base: float
    adjacent: bool
    epsilon: float

    @classmethod
    def of_hugging_face(cls, settings: Mapping[str, object]) -> LlamaSettings:
        """Read the words of Hugging Face.

        Raises:
            ValueError: a setting is missing, or asks for what there is not.
        """
        kind = _text(settings, "model_type")
        if kind not in ARCHITECTURES:
            raise ValueError(f"model_type is {kind!r}, not one of {', '.join(ARCHITECTURES)}")
        for key, value in EXPECTED.items():
            if settings.get(key, value) != value:
                raise ValueError(f"{key} is {settings[key]!r}, not {value!r}")
        parameters = settings.get("rope_parameters")
        told: Mapping[str, object] = parameters if isinstance(parameters, dict) else settings
        if told.get("rope_type", "default") != "default":
            raise ValueError(f"rope_type is {told['rope_type']!r}, not 'default'")
        return cls(
            vocabulary=_count(settings, "vocab_size"),
            context=_count(settings, "max_position_embeddings"),
            width=_count(settings, "hidden_size"),
            heads=_count(settings, "num_attention_heads"),
            key_value_heads=_count(settings, "num_key_value_heads"),
            head_width=_count(settings, "head_dim"),
            feed_forward=_count(settings, "intermediate_size"),
            layers=_count(settings, "num_hidden_layers"),
            # Llama models have no windows, whatever a setting of another family says.
            window=_count_or_none(settings, "sliding_window") if kind == "mistral" else None,
            tied=_truth(settings, "tie_word_embeddings"),
            rope_base=_real(told, "rope_theta"),
            adjacent=False,
            epsilon=_real(settings, "rms_norm_eps"),
        )

    @classmethod
    def of_reference(cls, settings: Mapping[str, object]) -> LlamaSettings:
        """Read this project's own words.

        Raises:
            ValueError: a setting is missing or has another type.
        """
        layout = _text(settings, "rope_layout")
        if layout not in ("adjacent", "half-split"):
            raise ValueError(f"rope_layout is {layout!r}, neither 'adjacent' nor 'half-split'")
        return cls(
            vocabulary=_count(settings, "vocabulary"),
            context=_count(settings, "context"),
            width=_count(settings, "width"),
            heads=_count(settings, "heads"),
            key_value_heads=_count(settings, "key_value_heads"),
            head_width=_count(settings, "head_width"),
            feed_forward=_count(settings, "feed_forward"),
            layers=_count(settings, "layers"),
            window=_count_or_none(settings, "window"),
            tied=_truth(settings, "tied"),
            rope_base=_real(settings, "rope_base"),
            adjacent=layout == "adjacent",
            epsilon=_real(settings, "epsilon"),
        )


def _found(settings: Mapping[str, object], key: str) -> object:
    if key not in settings:
        raise ValueError(f"there is no {key}")
    return settings[key]


def _text(settings: Mapping[str, object], key: str) -> str:
    value = _found(settings, key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is {value!r}, which is no text")
    return value


def _truth(settings: Mapping[str, object], key: str) -> bool:
    value = _found(settings, key)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}, neither true nor false")
    return value


def _count(settings: Mapping[str, object], key: str) -> int:
    value = _found(settings, key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{key} is {value!r}, which is no number from 1 on")
    return value


def _count_or_none(settings: Mapping[str, object], key: str) -> int | None:
    return None if _found(settings, key) is None else _count(settings, key)


def _real(settings: Mapping[str, object], key: str) -> float:
    value = _found(settings, key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}, which is no number")
    return float(value)


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
