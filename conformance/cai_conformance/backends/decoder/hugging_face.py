"""A Llama model as a folder that engines load: names, shapes and settings of Hugging Face's model files.

Matrices lie there as [outputs, inputs], the transpose of the reference's. Heads are turned in half-split pairs, as in
the reference's half-split layout, so that no rows have to be reordered. Every setting is stated, also where it is the
default of some engine.

`pad_token_id` is null. Id 0 is BOS, too, and an embedding that is told of padding never trains that row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
from safetensors.numpy import save

from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.backends.tensor_file import read_tensor_file
from cai_conformance.errors import InputUnreadable
from cai_reference.arithmetic import Array
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.text import BOS, EOS

SETTINGS: Final = "config.json"
GENERATION_SETTINGS: Final = "generation_config.json"

_WHOLE: Final = {
    "token_embedding.weight": "model.embed_tokens.weight",
    "final_norm.gain": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_OF_A_BLOCK: Final = {
    "attention_norm.gain": "input_layernorm.weight",
    "attention.query.weight": "self_attn.q_proj.weight",
    "attention.key.weight": "self_attn.k_proj.weight",
    "attention.value.weight": "self_attn.v_proj.weight",
    "attention.output.weight": "self_attn.o_proj.weight",
    "ffn_norm.gain": "post_attention_layernorm.weight",
    "ffn.gate.weight": "mlp.gate_proj.weight",
    "ffn.up.weight": "mlp.up_proj.weight",
    "ffn.down.weight": "mlp.down_proj.weight",
}
_BLOCK: Final = re.compile(r"blocks\.(\d+)\.(.+)", re.ASCII)
_LAYER: Final = re.compile(r"model\.layers\.(\d+)\.(.+)", re.ASCII)
_NATIVE_WHOLE: Final = {theirs: ours for ours, theirs in _WHOLE.items()}
_NATIVE_OF_A_BLOCK: Final = {theirs: ours for ours, theirs in _OF_A_BLOCK.items()}


def hugging_face_name(name: str) -> str:
    """Return what the files call a parameter of the reference; KeyError for no parameter of a Llama model."""
    found = _BLOCK.fullmatch(name)
    return _WHOLE[name] if found is None else f"model.layers.{found[1]}.{_OF_A_BLOCK[found[2]]}"


def native_name(name: str) -> str:
    """Return what the reference calls a tensor of the files; KeyError for any other tensor."""
    found = _LAYER.fullmatch(name)
    return _NATIVE_WHOLE[name] if found is None else f"blocks.{found[1]}.{_NATIVE_OF_A_BLOCK[found[2]]}"


def is_transposed(name: str) -> bool:
    """Tell whether the files hold a parameter of the reference transposed: every matrix but the embedding table."""
    return name.endswith(".weight") and name != "token_embedding.weight"


def write_tensors(values: Mapping[str, Array]) -> bytes:
    """Return a `model.safetensors`, single precision, of values by the reference's names."""
    tensors = {
        hugging_face_name(name): np.ascontiguousarray(value.T if is_transposed(name) else value, dtype=np.float32)
        for name, value in values.items()
    }
    # Loaders refuse a file that does not say whose tensors it holds.
    return save(tensors, metadata={"format": "pt"})


def read_tensors(data: bytes) -> dict[str, Array]:
    """Return the values of a `model.safetensors` in double precision, by the reference's names.

    Raises:
        InputUnreadable: the file is damaged, or a tensor is none of a Llama model.
    """
    file = WeightsLayout.HUGGING_FACE.file
    values: dict[str, Array] = {}
    for name, value in read_tensor_file(data, file).items():
        try:
            ours = native_name(name)
        except KeyError:
            raise InputUnreadable(file, f"the tensor {name[:60]!r} is none of a Llama model") from None
        values[ours] = np.ascontiguousarray(value.T) if is_transposed(ours) else value
    return values


def model_files(model: LlamaConfiguration, positions: int) -> dict[str, bytes]:
    """Return what stands beside the weights: the settings of the model, and those of generation.

    Args:
        model: a model with half-split pairs and a norm by the inverse of the root.
        positions: how many positions the model can be told.
    """
    windowed = model.window is not None
    settings = {
        "architectures": ["MistralForCausalLM" if windowed else "LlamaForCausalLM"],
        "model_type": "mistral" if windowed else "llama",
        "vocab_size": model.vocabulary,
        "hidden_size": model.width,
        "intermediate_size": model.feed_forward,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.groups,
        "head_dim": model.features,
        "max_position_embeddings": positions,
        "sliding_window": model.window,
        "hidden_act": "silu",
        "rms_norm_eps": model.epsilon,
        # Where the base stands has changed; each reader finds it where it looks.
        "rope_theta": model.rope_base,
        "rope_scaling": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_base},
        "tie_word_embeddings": model.tied,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "pretraining_tp": 1,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": None,
        "torch_dtype": "float32",
        "dtype": "float32",
    }
    generation = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": BOS, "do_sample": False, "use_cache": True}
    return {SETTINGS: _page(settings), GENERATION_SETTINGS: _page(generation)}


def _page(settings: Mapping[str, object]) -> bytes:
    return (json.dumps(settings, indent=2, allow_nan=False) + "\n").encode("utf-8")
