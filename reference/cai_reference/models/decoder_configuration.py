"""The decoder family as data: which mixers, how they are wired, dense or grouped, one head or several.

Nine published phases are nine values of one configuration (CAI NEURAL API, decode-features bake-off).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from cai_reference.models.errors import EmptyDecoder, SizeTooSmall


@dataclass(frozen=True)
class AttentionSpec:
    """Causal multi-head attention; `window` counts the current token, None sees everything."""

    window: int | None = None


@dataclass(frozen=True)
class LatentSpec:
    """Multi-head latent attention: the width of the latent, and that of the shared rotary key."""

    latent: int
    rope: int


@dataclass(frozen=True)
class SsmSpec:
    """A diagonal state-space recurrence."""


MixerSpec: TypeAlias = AttentionSpec | LatentSpec | SsmSpec


class Wiring(StrEnum):
    """How a block adds mixer and feed-forward layer to its input.

    Sequential: r = mixer(norm₁(x)) + x, then feed_forward(norm₂(r)) + r. Parallel: (x + mixer(n)) + feed_forward(n)
    with one shared n = norm(x).
    """

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


@dataclass(frozen=True)
class DecoderConfiguration:
    """The sizes of a decoder.

    Attributes:
        vocabulary: how many ids there are; id 0 embeds to zero.
        context: the longest sequence, prompt included.
        width: the model width d.
        heads: attention heads, each of width d / heads, which has to be even.
        feed_forward: the inner width of the feed-forward layers.
        mixers: one a block, in order.
        wiring: of all blocks.
        channels_per_group: the least inputs of a group where projections are grouped; None for dense ones.
        futures: how many tokens are predicted at once; head 0 predicts the next one.
        rope_base: the base of the rotary frequencies.

    Raises:
        EmptyDecoder, SizeTooSmall: there are no blocks, or a size is below 1.
    """

    vocabulary: int
    context: int
    width: int
    heads: int
    feed_forward: int
    mixers: tuple[MixerSpec, ...]
    wiring: Wiring = Wiring.SEQUENTIAL
    channels_per_group: int | None = None
    futures: int = 1
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        if not self.mixers:
            raise EmptyDecoder
        for name in ("vocabulary", "context", "width", "heads", "feed_forward", "futures", "channels_per_group"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise SizeTooSmall(name, size)


@dataclass(frozen=True)
class DraftConfiguration:
    """The sizes of a token-shift draft: embedding → shift → hidden → ReLU → logits.

    Raises:
        SizeTooSmall: a size is below 1.
    """

    vocabulary: int
    context: int
    width: int
    hidden: int

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "width", "hidden"):
            if getattr(self, name) < 1:
                raise SizeTooSmall(name, getattr(self, name))
