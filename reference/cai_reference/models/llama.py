"""The decoder that real engines run: RMSNorm, rotary grouped-query attention, SwiGLU of three matrices, no biases.

::

    x = E[ids]
    for each block:
        r = attention(norm(x)) + x
        x = feed_forward(norm(r)) + r
    logits = norm(x) W                 with a matrix W of its own, or E transposed

(Touvron and others, "LLaMA", 2023; grouped queries from "Llama 2", windows from "Mistral 7B"; course, chapters 25 and
29 to 32, where every head has its own keys and values, and the head is tied.) No id embeds to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cai_reference.autograd import Parameter
from cai_reference.layers import xavier_uniform
from cai_reference.layers.bias_free import BiasFree, TiedOutput
from cai_reference.layers.gated_feed_forward import GatedFeedForward
from cai_reference.layers.grouped_query_attention import GroupedQueryAttention
from cai_reference.layers.rms_norm import RmsNorm
from cai_reference.models.block import Block
from cai_reference.models.head import VocabularyHead
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64

LlamaBlock: TypeAlias = Block[RmsNorm, GatedFeedForward]


class Llama(DecoderStack):
    """A Llama model with its parameters in registry order."""

    configuration: LlamaConfiguration
    blocks: tuple[LlamaBlock, ...]
    head: VocabularyHead

    def __init__(
        self, configuration: LlamaConfiguration, table: Parameter, blocks: Sequence[LlamaBlock], head: VocabularyHead
    ) -> None:
        super().__init__(configuration, table, blocks, head, None)

    @classmethod
    def initialize(cls, configuration: LlamaConfiguration, generator: SplitMix64) -> Llama:
        """Draw all matrices from one stream, in registry order; gains start as ones and draw nothing."""
        sizes = configuration
        table = xavier_uniform("token_embedding.weight", sizes.vocabulary, sizes.width, generator)
        blocks = [_block(f"blocks.{index}", sizes, generator) for index in range(sizes.layers)]
        norm = _norm("final_norm", sizes)
        if sizes.tied:
            return cls(sizes, table, blocks, VocabularyHead(norm, TiedOutput(table)))
        output = BiasFree.initialize("output", sizes.width, sizes.vocabulary, generator)
        return cls(sizes, table, blocks, VocabularyHead(norm, output))


def _block(name: str, sizes: LlamaConfiguration, generator: SplitMix64) -> LlamaBlock:
    """Make one block; drawing attention, then the feed-forward layer, is registry order."""
    attention = GroupedQueryAttention.initialize(
        f"{name}.attention",
        sizes.width,
        sizes.heads,
        sizes.groups,
        sizes.features,
        sizes.rope,
        sizes.window,
        generator,
    )
    return Block(
        _norm(f"{name}.attention_norm", sizes),
        attention,
        _norm(f"{name}.ffn_norm", sizes),
        GatedFeedForward.initialize(f"{name}.ffn", sizes.width, sizes.feed_forward, generator),
    )


def _norm(name: str, sizes: LlamaConfiguration) -> RmsNorm:
    return RmsNorm.initialize(name, sizes.width, sizes.epsilon, sizes.norm)
