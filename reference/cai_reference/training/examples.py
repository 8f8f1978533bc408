"""Examples that a model is trained on, by index, with a digest that tells two sets of them apart."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from cai_reference.autograd import Tape, Variable
from cai_reference.models import NeuralNgram
from cai_reference.text import Epoch, Slot, Window
from cai_reference.text.story_batches import StoryBatch, story_batches
from cai_reference.training.decoder_training import StoryModel
from cai_reference.training.planned_epoch import window_batch

ModelOf = TypeVar("ModelOf", contravariant=True)


class Examples(Protocol[ModelOf]):
    """What a run needs to know of its data."""

    @property
    def count(self) -> int:
        """How many examples there are."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 over all examples in order, in hex digits."""
        ...

    def loss(self, model: ModelOf, tape: Tape, chosen: Sequence[int]) -> Variable:
        """Return the mean loss over some examples."""
        ...


@dataclass(frozen=True)
class NgramWindows:
    """Windows for the neural n-gram, which predicts the last target of each."""

    windows: tuple[Window, ...]

    @property
    def count(self) -> int:
        """As `Examples.count`."""
        return len(self.windows)

    @cached_property
    def digest(self) -> str:
        """As `Examples.digest`."""
        return _digest("n-gram windows", ((*window.inputs, *window.targets) for window in self.windows))

    def loss(self, model: NeuralNgram, tape: Tape, chosen: Sequence[int]) -> Variable:
        """As `Examples.loss`."""
        return model.loss(tape, [self.windows[index] for index in chosen])


@dataclass(frozen=True)
class DecoderWindows:
    """Windows of documents for a decoder, which predicts every target (course, chapter 33)."""

    epoch: Epoch

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Where the windows lie, in document order."""
        return tuple(self.epoch.slots())

    @property
    def count(self) -> int:
        """As `Examples.count`."""
        return len(self.slots)

    @cached_property
    def digest(self) -> str:
        """As `Examples.digest`."""
        windows = (self.epoch.window(slot) for slot in self.slots)
        return _digest("decoder windows", ((*window.inputs, *window.targets) for window in windows))

    def loss(self, model: StoryModel, tape: Tape, chosen: Sequence[int]) -> Variable:
        """As `Examples.loss`."""
        return model.loss(tape, window_batch(self.epoch, [self.slots[index] for index in chosen]))


@dataclass(frozen=True)
class Stories:
    """Whole stories for a decoder or a draft, padded to the longest of a batch and cut to the context."""

    stories: tuple[tuple[int, ...], ...]
    context: int

    @property
    def count(self) -> int:
        """As `Examples.count`."""
        return len(self.stories)

    @cached_property
    def digest(self) -> str:
        """As `Examples.digest`."""
        return _digest(f"stories cut to {self.context}", self.stories)

    def batch(self, chosen: Sequence[int]) -> StoryBatch:
        """Return some stories as the model takes them."""
        (batch,) = story_batches([self.stories[index] for index in chosen], len(chosen), self.context)
        return batch

    def loss(self, model: StoryModel, tape: Tape, chosen: Sequence[int]) -> Variable:
        """As `Examples.loss`."""
        return model.loss(tape, self.batch(chosen))


def _digest(kind: str, examples: Iterable[Sequence[int]]) -> str:
    """Hash the kind, then of every example its length and its ids, eight bytes each, little-endian with a sign."""
    hashed = hashlib.sha256(kind.encode())
    for example in examples:
        hashed.update(struct.pack(f"<{len(example) + 1}q", len(example), *example))
    return hashed.hexdigest()
