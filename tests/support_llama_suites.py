"""The given weights of the Llama suites for the slow oracle: read by hand, and written down as it reads models.

What the models are made of stands here a second time, as literals, so that a mistake in the project's plan shows.
Nothing here uses the project's own packages or NumPy.
"""

from __future__ import annotations

from typing import Final

from support_decode_given import Tensor, Tensors, read_tensors
from support_decoder_description import Matrix, Vector
from support_llama_oracle import Block, Model, Sizes

LAYERS: Final = 2

WEIGHTS: Final = {
    "llama.dense": "model.safetensors",
    "llama.gqa-window": "model.safetensors",
    "course.decoder": "weights.safetensors",
}

SIZES: Final[dict[str, Sizes]] = {
    "llama.dense": {
        "heads": 4,
        "key_value_heads": 4,
        "base": 500000.0,
        "layout": "half-split",
        "nearest": False,
        "window": None,
        "epsilon": 0.001,
        "norm": "inverse-root",
    },
    "llama.gqa-window": {
        "heads": 4,
        "key_value_heads": 2,
        "base": 1000000.0,
        "layout": "half-split",
        "nearest": False,
        "window": 7,
        "epsilon": 0.0003,
        "norm": "inverse-root",
    },
    "course.decoder": {
        "heads": 4,
        "key_value_heads": 4,
        "base": 10000.0,
        "layout": "adjacent",
        "nearest": True,
        "window": None,
        "epsilon": 1e-6,
        "norm": "exponential",
    },
}

ENGINES: Final = {
    "attention_norm": "input_layernorm.weight",
    "query": "self_attn.q_proj.weight",
    "key": "self_attn.k_proj.weight",
    "value": "self_attn.v_proj.weight",
    "output": "self_attn.o_proj.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
"""The parts of a block by their names in the files of engines, below `model.layers.N.`; matrices are [out][in]."""

COURSE: Final = {
    "attention_norm": "attention_norm.gain",
    "query": "attention.query.weight",
    "key": "attention.key.weight",
    "value": "attention.value.weight",
    "output": "attention.output.weight",
    "ffn_norm": "ffn_norm.gain",
    "gate": "ffn.gate.weight",
    "up": "ffn.up.weight",
    "down": "ffn.down.weight",
}
"""The same by the course's names, below `blocks.N.`; matrices are [in][out]."""


def described(suite: str, data: bytes, *, tied: bool = False) -> Model:
    """Write the model of a suite down; if `tied`, with ids 2i and 2i + 1 alike in what gives logits."""
    tensors = read_tensors(data)
    engines = WEIGHTS[suite] == "model.safetensors"
    prefix, names = ("model.layers", ENGINES) if engines else ("blocks", COURSE)
    blocks = [_block(tensors, f"{prefix}.{layer}", names, engines) for layer in range(LAYERS)]
    table = tensors["model.embed_tokens.weight" if engines else "token_embedding.weight"].matrix()
    head = tensors["lm_head.weight"].matrix() if "lm_head.weight" in tensors else None
    if tied and head is None:
        table = _paired(table)
    if tied and head is not None:
        head = _paired(head)
    return {
        "sizes": SIZES[suite],
        "embedding": table,
        "blocks": blocks,
        "final_norm": tensors["model.norm.weight" if engines else "final_norm.gain"].values,
        "output": None if head is None else _turned(head),
    }


def _block(tensors: Tensors, prefix: str, names: dict[str, str], engines: bool) -> Block:
    def vector(part: str) -> Vector:
        return tensors[f"{prefix}.{names[part]}"].values

    def matrix(part: str) -> Matrix:
        found: Tensor = tensors[f"{prefix}.{names[part]}"]
        return _turned(found.matrix()) if engines else found.matrix()

    return {
        "attention_norm": vector("attention_norm"),
        "query": matrix("query"),
        "key": matrix("key"),
        "value": matrix("value"),
        "output": matrix("output"),
        "ffn_norm": vector("ffn_norm"),
        "gate": matrix("gate"),
        "up": matrix("up"),
        "down": matrix("down"),
    }


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _paired(rows: Matrix) -> Matrix:
    """Repeat every row at an even place at the odd one behind it; there is an even number of ids."""
    return [row for row in rows[0::2] for _ in range(2)]
