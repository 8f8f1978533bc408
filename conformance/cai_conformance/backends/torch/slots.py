"""The sequences that an engine holds: how much of each is remembered, and how a batch goes through the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from cai_conformance.backends.torch.cache import Call, LayerCache
from cai_conformance.backends.torch.computing import Observer
from cai_conformance.backends.torch.models import Stack, never
from cai_conformance.engine import Piece


@dataclass
class TorchSlot:
    """How much of a sequence is remembered, and where it starts."""

    start: int = 0
    length: int = 0

    @property
    def end(self) -> int:
        """The position of the next token."""
        return self.start + self.length


class Slots:
    """A model and a number of sequences; one more is for generation.

    What does not fit is a `ValueError`, raised before anything is changed.
    """

    def __init__(self, stack: Stack, count: int, context: int) -> None:
        self.context = context
        self._stack, self._count = stack, count
        self._slots = [TorchSlot() for _ in range(count + 1)]
        self._caches = tuple(
            LayerCache(remembered, count + 1, context, stack.dtype, stack.device) for remembered in stack.remembered
        )

    @property
    def spare(self) -> int:
        """The slot for generation."""
        return self._count

    @property
    def bytes_a_slot(self) -> int:
        """How many bytes of cache a sequence has."""
        return sum(cache.bytes_a_slot for cache in self._caches)

    def length(self, slot: int) -> int:
        """Return how many tokens a slot holds."""
        return self._slots[slot].length

    def check(self, pieces: Sequence[Piece]) -> None:
        """Refuse pieces that cannot be evaluated in one call.

        Raises:
            ValueError: says which and why.
        """
        if len({piece.slot for piece in pieces}) < len(pieces):
            raise ValueError("two pieces are for one slot")
        for piece in pieces:
            self._check_piece(piece)

    def check_slot(self, slot: int) -> None:
        """Refuse a slot that there is not.

        Raises:
            ValueError: with its number.
        """
        if not 0 <= slot < self._count:
            raise ValueError(f"there are the slots 0 … {self._count - 1}, not {slot}")

    def check_ids(self, ids: Sequence[int]) -> None:
        """Refuse what is no id.

        Raises:
            ValueError: with the first of them.
        """
        for token in ids:
            if not 0 <= token < self._stack.vocabulary:
                raise ValueError(f"{token} is none of the ids 0 … {self._stack.vocabulary - 1}")

    def run(
        self, pieces: Sequence[Piece], observe: Observer, behind: Callable[[int], None] = never
    ) -> list[torch.Tensor]:
        """Compute checked pieces as one batch, and remember them then; what raises in between changes nothing.

        Returns:
            The logits [batch, tokens, vocabulary] of each head.
        """
        device, slots = self._stack.device, [self._slots[piece.slot] for piece in pieces]
        lengths = [slot.length for slot in slots]
        call = Call.of([piece.tokens for piece in pieces], lengths, [piece.position for piece in pieces], device)
        numbers = torch.tensor([piece.slot for piece in pieces], device=device)
        pasts = [cache.past(numbers, max(lengths)) for cache in self._caches]
        logits, rows = self._stack(call, pasts, observe, behind)
        for row, (piece, slot) in enumerate(zip(pieces, slots, strict=True)):
            tokens = len(piece.tokens)
            for cache, new in zip(self._caches, rows, strict=True):
                cache.store(piece.slot, slot.length, {name: value[row, :tokens] for name, value in new.items()})
            if not slot.length:
                slot.start = piece.position
            slot.length += tokens
        return list(logits)

    def empty(self, slot: int) -> None:
        """Forget a sequence."""
        for cache in self._caches:
            cache.cut(slot, 0)
        self._slots[slot] = TorchSlot()

    def empty_all(self) -> None:
        """Forget every sequence."""
        for slot in range(self._count + 1):
            self.empty(slot)

    def drop(self, slot: int, first: int, last: int | None) -> None:
        """Forget the positions first … last − 1 of a slot.

        Raises:
            ValueError: they are not at the end of the slot, or what is needed before them is gone.
        """
        self.check_slot(slot)
        held = self._slots[slot]
        if not held.length:
            raise ValueError(f"slot {slot} is empty")
        if not held.start <= first <= held.end:
            raise ValueError(f"slot {slot} holds the positions {held.start} … {held.end - 1}, not {first}")
        if last not in (None, held.end):
            raise ValueError(f"slot {slot} can be cut at its end, position {held.end - 1}, only")
        length = first - held.start
        for layer, cache in enumerate(self._caches):
            if not cache.can_be_cut(slot, length):
                raise ValueError(f"layer {layer} no longer holds what position {first} looks back at")
        for cache in self._caches:
            cache.cut(slot, length)
        held.length = length

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds.

        Raises:
            ValueError: there is no such slot.
        """
        self.check_slot(source)
        self.check_slot(target)
        for cache in self._caches:
            cache.copy(source, target)
        held = self._slots[source]
        self._slots[target] = TorchSlot(held.start, held.length)

    def poison(self, value: float) -> None:
        """Fill every cached row that no position owns."""
        for cache in self._caches:
            cache.poison(value)

    def _check_piece(self, piece: Piece) -> None:
        self.check_slot(piece.slot)
        self.check_ids(piece.tokens)
        slot, tokens = self._slots[piece.slot], len(piece.tokens)
        if not tokens:
            raise ValueError(f"there are no tokens for slot {piece.slot}")
        if list(piece.wanted) != sorted({place for place in piece.wanted if 0 <= place < tokens}):
            raise ValueError(f"{list(piece.wanted)} are not ascending places of {tokens} tokens")
        if piece.position < 0:
            raise ValueError(f"there is no position {piece.position}")
        if slot.length and piece.position != slot.end:
            raise ValueError(f"slot {piece.slot} goes on at position {slot.end}, not {piece.position}")
        if slot.length + tokens > self.context:
            raise ValueError(f"{slot.length + tokens} tokens are more than the context of {self.context}")
