"""Epochs and mini-batches: which windows are seen together, in which order.

An epoch belongs to one partition and holds the windows of its documents, in document order and then by ascending
start. A plan cuts the epoch, shuffled or not, into slices of the batch size; the last slice keeps its true width, it
is neither dropped nor padded (course, chapter 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.splitmix import RandomBits, shuffle
from cai_reference.text.errors import (
    DuplicateDocumentId,
    EmptyDocumentId,
    PartitionMismatch,
    ZeroBatchSize,
)
from cai_reference.text.windows import Window, Windowing


@dataclass(frozen=True)
class EncodedDocument:
    """The ids of one document, controls included, with the partition that it belongs to."""

    identifier: str
    partition: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Slot:
    """Where a window lies: the index of its document in the epoch, and its first token."""

    document: int
    start: int


Batch = tuple[Slot, ...]


@dataclass(frozen=True)
class Epoch:
    """All windows of one partition.

    Raises:
        PartitionMismatch, EmptyDocumentId, DuplicateDocumentId: looked for document by document.
    """

    partition: str
    documents: tuple[EncodedDocument, ...]
    windowing: Windowing

    def __post_init__(self) -> None:
        first_position: dict[str, int] = {}
        for index, document in enumerate(self.documents):
            if not document.identifier:
                raise EmptyDocumentId(index)
            if document.partition != self.partition:
                raise PartitionMismatch(index, self.partition, document.partition)
            first = first_position.setdefault(document.identifier, index)
            if first != index:
                raise DuplicateDocumentId(document.identifier, first, index)

    def slots(self) -> list[Slot]:
        """Return every window's place, in document order and then by ascending start."""
        return [
            Slot(index, start)
            for index, document in enumerate(self.documents)
            for start in self.windowing.starts(len(document.tokens))
        ]

    def window(self, slot: Slot) -> Window:
        """Return the window at `slot`."""
        return self.windowing.window(self.documents[slot.document].tokens, slot.start)


def sequential_plan(epoch: Epoch, batch_size: int) -> tuple[Batch, ...]:
    """Cut the windows of an epoch into batches, in order.

    Raises:
        ZeroBatchSize: the batch size is below 1.
    """
    return _slices(epoch.slots(), batch_size)


def shuffled_plan(epoch: Epoch, batch_size: int, generator: RandomBits) -> tuple[Batch, ...]:
    """Cut the windows of an epoch into batches, after one Fisher–Yates shuffle.

    Raises:
        ZeroBatchSize: the batch size is below 1 (nothing is drawn then).
    """
    if batch_size < 1:
        raise ZeroBatchSize
    slots = epoch.slots()
    shuffle(slots, generator)
    return _slices(slots, batch_size)


def _slices(slots: Sequence[Slot], batch_size: int) -> tuple[Batch, ...]:
    if batch_size < 1:
        raise ZeroBatchSize
    return tuple(tuple(slots[start : start + batch_size]) for start in range(0, len(slots), batch_size))
