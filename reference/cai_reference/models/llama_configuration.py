"""The sizes of a Llama model as data."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.layers.errors import HeadsDoNotDivide, OddRopeWidth, WindowTooSmall
from cai_reference.layers.grouped_query_attention import check_groups
from cai_reference.layers.rms_norm import InverseForm, check_epsilon
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, check_base
from cai_reference.models.errors import NegativeLayers, SizeTooSmall


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
        SizeTooSmall, HeadsDoNotDivide, OddRopeWidth, KeyValueHeadsDoNotDivide, InvalidRopeBase, InvalidNormEpsilon,
            NegativeLayers, WindowTooSmall: looked at in this order: vocabulary, width, heads, the width of a head,
            key_value_heads, feed_forward, context, rope_base, epsilon (course, chapter 32); then layers and window.
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
            raise HeadsDoNotDivide(self.width, self.heads)
        if self.features < 1 or self.features % 2:
            raise OddRopeWidth(self.features)
        check_groups(self.heads, self.groups)
        self._check_sizes("feed_forward", "context")
        check_base(self.rope_base)
        check_epsilon(self.epsilon)
        if self.layers < 0:
            raise NegativeLayers(self.layers)
        if self.window is not None and self.window < 1:
            raise WindowTooSmall(self.window)

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
                raise SizeTooSmall(name, size)
