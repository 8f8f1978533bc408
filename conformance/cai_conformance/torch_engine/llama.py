"""Llama models of PyTorch's own modules, and what their tensors are called in files."""

from __future__ import annotations

from typing import Final

from torch import nn

from cai_conformance.torch_engine.feed_forward import GatedFeedForward
from cai_conformance.torch_engine.grouped_query_attention import GroupedQueryAttention
from cai_conformance.torch_engine.heads import VocabularyHead
from cai_conformance.torch_engine.llama_settings import LlamaSettings
from cai_conformance.torch_engine.rope import Rope
from cai_conformance.torch_engine.stack import Block, Stack

_WHOLE: Final = {
    "embedding.weight": ("model.embed_tokens.weight", "token_embedding.weight"),
    "head.norm.weight": ("model.norm.weight", "final_norm.gain"),
    "head.output.weight": ("lm_head.weight", "output.weight"),
}
_OF_A_BLOCK: Final = {
    "norm1.weight": ("input_layernorm.weight", "attention_norm.gain"),
    "mixer.query.weight": ("self_attn.q_proj.weight", "attention.query.weight"),
    "mixer.key.weight": ("self_attn.k_proj.weight", "attention.key.weight"),
    "mixer.value.weight": ("self_attn.v_proj.weight", "attention.value.weight"),
    "mixer.output.weight": ("self_attn.o_proj.weight", "attention.output.weight"),
    "norm2.weight": ("post_attention_layernorm.weight", "ffn_norm.gain"),
    "feed_forward.gate.weight": ("mlp.gate_proj.weight", "ffn.gate.weight"),
    "feed_forward.up.weight": ("mlp.up_proj.weight", "ffn.up.weight"),
    "feed_forward.down.weight": ("mlp.down_proj.weight", "ffn.down.weight"),
}


def llama(sizes: LlamaSettings) -> Stack:
    """Build a model whose weights are still to be filled in."""
    rope = Rope(sizes.rope_base, sizes.adjacent)
    blocks = [
        Block(
            nn.RMSNorm(sizes.width, eps=sizes.epsilon),
            GroupedQueryAttention(
                sizes.width, sizes.heads, sizes.key_value_heads, sizes.head_width, sizes.window, rope
            ),
            nn.RMSNorm(sizes.width, eps=sizes.epsilon),
            GatedFeedForward(sizes.width, sizes.feed_forward),
        )
        for _ in range(sizes.layers)
    ]
    output = None if sizes.tied else nn.Linear(sizes.width, sizes.vocabulary, bias=False)
    head = VocabularyHead(nn.RMSNorm(sizes.width, eps=sizes.epsilon), output)
    return Stack(nn.Embedding(sizes.vocabulary, sizes.width), blocks, head, None)


def hugging_face_name(name: str) -> str:
    """Return what Hugging Face's files call a parameter.

    blocks.0.norm1.weight  →  model.layers.0.input_layernorm.weight
    """
    return _file_name(name, 0, "model.layers")


def reference_name(name: str) -> str:
    """Return what this project's files call a parameter.

    blocks.0.norm1.weight  →  blocks.0.attention_norm.gain
    """
    return _file_name(name, 1, "blocks")


def _file_name(name: str, words: int, blocks: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name][words]
    _, index, rest = name.split(".", 2)
    return f"{blocks}.{index}.{_OF_A_BLOCK[rest][words]}"
