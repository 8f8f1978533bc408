"""The two families of models in PyTorch, and the stack of blocks that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import nn

from cai_conformance.backends.torch.attention import (
    SlabAttention,
    TorchGroupedQueryAttention,
    TorchLatentAttention,
    TorchRope,
)
from cai_conformance.backends.torch.cache import Call, Past, Remembered
from cai_conformance.backends.torch.computing import Observer
from cai_conformance.backends.torch.layers import (
    NewRows,
    SlabFeedForward,
    TorchDiagonalSsm,
    TorchDynamicTanh,
    TorchFuturesHead,
    TorchGatedFeedForward,
    TorchMixer,
    TorchVocabularyHead,
    projection,
)
from cai_conformance.backends.torch.llama_settings import LlamaSettings
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec, Wiring


def never(blocks: int) -> None:
    """Do nothing behind so many blocks."""


class TorchBlock(nn.Module):
    """A mixer and a feed-forward layer; without a second norm the two stand side by side behind the first one."""

    def __init__(self, norm1: nn.Module, mixer: TorchMixer, norm2: nn.Module | None, feed_forward: nn.Module) -> None:
        super().__init__()
        self.norm1, self.mixer, self.norm2, self.feed_forward = norm1, mixer, norm2, feed_forward

    @property
    def remembered(self) -> Remembered:
        """What its mixer remembers."""
        return self.mixer.remembered

    def forward(self, x: torch.Tensor, call: Call, past: Past, observe: Observer) -> tuple[torch.Tensor, NewRows]:
        """Map [batch, tokens, width] to the same shape; return that, and what the mixer is to remember."""
        normed = self.norm1(x)
        observe("norm1", normed)
        mixed, rows = self.mixer(normed, call, past, observe.within("mixer"))
        observe("mixed", mixed)
        if self.norm2 is None:
            output = x + mixed + self.feed_forward(normed, observe.within("feed_forward"))
        else:
            residual = mixed + x
            observe("residual", residual)
            output = self.feed_forward(self.norm2(residual), observe.within("feed_forward")) + residual
        observe("output", output)
        return output, rows


class Stack(nn.Module):
    """A decoder.

    Attributes:
        remembered: what each block remembers.
        zero_id: an id that embeds to zero and whose row gets no gradient; None where there is none.
    """

    def __init__(
        self, embedding: nn.Embedding, blocks: Sequence[TorchBlock], head: nn.Module, zero_id: int | None
    ) -> None:
        super().__init__()
        self.embedding, self.blocks, self.head = embedding, nn.ModuleList(blocks), head
        self.remembered = tuple(block.remembered for block in blocks)
        self.zero_id = zero_id

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return int(self.embedding.num_embeddings)

    @property
    def dtype(self) -> torch.dtype:
        """The format of the weights."""
        return self.embedding.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.weight.device

    def forward(
        self, call: Call, pasts: Sequence[Past], observe: Observer, behind: Callable[[int], None] = never
    ) -> tuple[list[torch.Tensor], list[NewRows]]:
        """Return the logits [batch, tokens, vocabulary] of each head, and what each block is to remember.

        Args:
            call: the tokens.
            pasts: what each block remembers of the sequences.
            observe: is shown every stage.
            behind: is called behind each number of blocks, 0 for the embedding.
        """
        x = self.embedding(call.ids)
        if self.zero_id is not None:
            x = x.masked_fill((call.ids == self.zero_id)[..., None], 0.0)
        observe("embedding", x)
        behind(0)
        rows: list[NewRows] = []
        for index, (block, past) in enumerate(zip(self.blocks, pasts, strict=True)):
            x, new = block(x, call, past, observe.within(f"blocks.{index}"))
            rows.append(new)
            behind(index + 1)
        return self.head(x, self.embedding.weight, observe), rows

    def from_the_start(self, ids: torch.Tensor) -> list[torch.Tensor]:
        """Return the logits of sequences [batch, tokens] that begin at position 0, with nothing remembered."""
        batch, tokens = ids.shape
        indices = torch.arange(tokens, device=ids.device).expand(batch, tokens)
        pasts = [Past.none(each, batch, self.dtype, self.device) for each in self.remembered]
        logits, _ = self(Call(ids, indices, indices), pasts, Observer())
        return list(logits)


ZERO_ID = 0
"""The id that embeds to zero."""


def cai_decoder(sizes: DecoderConfiguration) -> Stack:
    """Build a model whose weights are still to be filled in."""
    width, channels = sizes.width, sizes.channels_per_group
    hidden = projection(width, width, channels)
    outputs = [projection(width, sizes.vocabulary, channels, mix=False) for _ in range(sizes.futures)]
    blocks = [_block(sizes, spec) for spec in sizes.mixers]
    return Stack(nn.Embedding(sizes.vocabulary, width), blocks, TorchFuturesHead(hidden, outputs), ZERO_ID)


def _block(sizes: DecoderConfiguration, spec: MixerSpec) -> TorchBlock:
    width, inner, channels = sizes.width, sizes.feed_forward, sizes.channels_per_group
    feed_forward = SlabFeedForward(projection(width, 2 * inner, channels), projection(inner, width, channels))
    norm2 = TorchDynamicTanh(width) if sizes.wiring is Wiring.SEQUENTIAL else None
    return TorchBlock(TorchDynamicTanh(width), _mixer(sizes, spec), norm2, feed_forward)


def _mixer(sizes: DecoderConfiguration, spec: MixerSpec) -> TorchMixer:
    width, heads, channels = sizes.width, sizes.heads, sizes.channels_per_group
    output, rope = projection(width, width, channels), TorchRope(sizes.rope_base, adjacent=True)
    if isinstance(spec, AttentionSpec):
        return SlabAttention(projection(width, 3 * width, channels), output, width, heads, spec.window, rope)
    query = projection(width, width, channels)
    if isinstance(spec, LatentSpec):
        return TorchLatentAttention(query, output, width, heads, spec.latent, spec.rope, rope)
    return TorchDiagonalSsm(query, output, width)


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
    rope = TorchRope(sizes.rope_base, sizes.adjacent)
    blocks = [
        TorchBlock(
            nn.RMSNorm(sizes.width, eps=sizes.epsilon),
            TorchGroupedQueryAttention(
                sizes.width, sizes.heads, sizes.key_value_heads, sizes.head_width, sizes.window, rope
            ),
            nn.RMSNorm(sizes.width, eps=sizes.epsilon),
            TorchGatedFeedForward(sizes.width, sizes.feed_forward),
        )
        for _ in range(sizes.layers)
    ]
    output = None if sizes.tied else nn.Linear(sizes.width, sizes.vocabulary, bias=False)
    head = TorchVocabularyHead(nn.RMSNorm(sizes.width, eps=sizes.epsilon), output)
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
