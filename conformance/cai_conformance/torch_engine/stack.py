"""The frame of all decoders: an embedding, blocks around a residual stream, a head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from cai_conformance.torch_engine.cache import Past, Remembered
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.mixing import Mixer, NewRows
from cai_conformance.torch_engine.observing import Observer


def never(blocks: int) -> None:
    """Do nothing behind so many blocks."""


class Block(nn.Module):
    """A mixer and a feed-forward layer; without a second norm the two stand side by side behind the first one."""

    def __init__(self, norm1: nn.Module, mixer: Mixer, norm2: nn.Module | None, feed_forward: nn.Module) -> None:
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

    def __init__(self, embedding: nn.Embedding, blocks: Sequence[Block], head: nn.Module, zero_id: int | None) -> None:
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
        self,
        call: Call,
        pasts: Sequence[Past],
        observe: Observer,
        behind: Callable[[int], None] = never,
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
