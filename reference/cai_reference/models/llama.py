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
from dataclasses import dataclass
from typing import TypeAlias

from cai_reference.autograd import Parameter
from cai_reference.errors import LayerError, ModelError
from cai_reference.layers.attention import GroupedQueryAttention, check_groups
from cai_reference.layers.feed_forward import GatedFeedForward
from cai_reference.layers.matrices import BiasFree, TiedOutput, Units, xavier_uniform
from cai_reference.layers.rms_norm import InverseForm, RmsNorm, check_epsilon
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, check_base
from cai_reference.models.stack import Block, DecoderStack, VocabularyHead


@dataclass(frozen=True)
class LlamaConfiguration:
    """The sizes of a Llama model.

    Attributes:
        vocabulary: how many ids there are.
        context: the longest sequence, prompt included.
        width: the model width d.
        heads: query heads H.
        feed_forward: the inner width of the feed-forward layers.
        layers: how many blocks there are; 0 leaves embedding and head.
        key_value_heads: heads of keys and values G, a divisor of H; None for H.
        head_width: the width w of a head, which has to be even; None for d / H, which has to be whole.
        window: how many tokens each layer sees, the current one included; None for all.
        tied: whether the embedding table is the output matrix, too.
        rope_base: the base of the rotary frequencies.
        rope_layout: which features of a head are turned together.
        rope_frequencies: how the frequencies are computed.
        epsilon: stands inside the root of every norm.
        norm: how the norms compute the inverse of the root.

    Raises:
        ModelError (size-too-small), LayerError (heads-do-not-divide, odd-rope-width, key-value-heads-do-not-divide,
            invalid-rope-base, invalid-norm-epsilon): vocabulary, width, heads, the width of a head, key_value_heads,
            feed_forward, context, rope_base and epsilon are looked at in this order (course, chapter 32).
        ModelError (negative-layers), LayerError (window-too-small): then layers and window.
    """

    vocabulary: int
    context: int
    width: int
    heads: int
    feed_forward: int
    layers: int
    key_value_heads: int | None = None
    head_width: int | None = None
    window: int | None = None
    tied: bool = False
    rope_base: float = 10000.0
    rope_layout: RopeLayout = RopeLayout.HALF_SPLIT
    rope_frequencies: Frequencies = Frequencies.EXPONENTIAL
    epsilon: float = 1e-5
    norm: InverseForm = InverseForm.INVERSE_ROOT

    def __post_init__(self) -> None:
        self._check_sizes("vocabulary", "width", "heads")
        if self.head_width is None and self.width % self.heads:
            raise LayerError("heads-do-not-divide", width=self.width, heads=self.heads)
        if self.features < 1 or self.features % 2:
            raise LayerError("odd-rope-width", width=self.features)
        check_groups(self.heads, self.groups)
        self._check_sizes("feed_forward", "context")
        check_base(self.rope_base)
        check_epsilon(self.epsilon)
        if self.layers < 0:
            raise ModelError("negative-layers", layers=self.layers)
        if self.window is not None and self.window < 1:
            raise LayerError("window-too-small", window=self.window)

    @property
    def features(self) -> int:
        """The width w of a head."""
        return self.width // self.heads if self.head_width is None else self.head_width

    @property
    def groups(self) -> int:
        """How many heads of keys and values there are."""
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def rope(self) -> Rope:
        """How positions are told."""
        return Rope(self.rope_base, self.rope_layout, self.rope_frequencies)

    def _check_sizes(self, *names: str) -> None:
        for name in names:
            size = getattr(self, name)
            if size < 1:
                raise ModelError("size-too-small", name=name, size=size)


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
    def initialize(cls, configuration: LlamaConfiguration, generator: Units) -> Llama:
        """Draw all matrices from one stream, in registry order; gains start as ones and draw nothing."""
        sizes = configuration
        table = xavier_uniform("token_embedding.weight", sizes.vocabulary, sizes.width, generator)
        blocks = [_block(f"blocks.{index}", sizes, generator) for index in range(sizes.layers)]
        norm = _norm("final_norm", sizes)
        # the table is drawn once and has no second place in the registry
        if sizes.tied:
            return cls(sizes, table, blocks, VocabularyHead(norm, TiedOutput(table)))
        output = BiasFree.initialize("output", sizes.width, sizes.vocabulary, generator)
        return cls(sizes, table, blocks, VocabularyHead(norm, output))


def _block(name: str, sizes: LlamaConfiguration, generator: Units) -> LlamaBlock:
    """Make one block; drawing attention, then the feed-forward layer, is registry order."""
    attention = GroupedQueryAttention.initialize(
        f"{name}.attention", sizes.width, sizes.heads, sizes.groups, sizes.features, sizes.rope, sizes.window, generator
    )
    return Block(
        _norm(f"{name}.attention_norm", sizes),
        attention,
        _norm(f"{name}.ffn_norm", sizes),
        GatedFeedForward.initialize(f"{name}.ffn", sizes.width, sizes.feed_forward, generator),
    )


def _norm(name: str, sizes: LlamaConfiguration) -> RmsNorm:
    return RmsNorm.initialize(name, sizes.width, sizes.epsilon, sizes.norm)
