"""Windows: the training examples of autoregressive models.

A window of context length T is T input tokens and the same tokens shifted by one as targets. Windows never leave their
document and are never padded; a document of length L has floor((L − T − 1)/stride) + 1 of them, or none (course,
chapter 5).

Epochs and mini-batches: which windows are seen together, in which order.

An epoch belongs to one partition and holds the windows of its documents, in document order and then by ascending
start. A plan cuts the epoch, shuffled or not, into slices of the batch size; the last slice keeps its true width, it
is neither dropped nor padded (course, chapter 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.splitmix import RandomBits, shuffle
from cai_reference.text.errors import BatchError, TextError


@dataclass(frozen=True)
class Window:
    """One example: `inputs` and `targets` hold T ids each, `targets` one position later."""

    inputs: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Windowing:
    """How documents are cut.

    Raises:
        TextError (zero-context-length, zero-stride): a length is below 1 (the context is looked at first).
    """

    context: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.context < 1:
            raise TextError("zero-context-length")
        if self.stride < 1:
            raise TextError("zero-stride")

    def starts(self, length: int) -> range:
        """Return where the windows of a document of `length` tokens start."""
        return range(0, max(0, length - self.context), self.stride)

    def window(self, tokens: Sequence[int], start: int) -> Window:
        """Return the window of `tokens` that starts at `start`."""
        end = start + self.context
        return Window(tuple(tokens[start:end]), tuple(tokens[start + 1 : end + 1]))


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
        BatchError (partition-mismatch, empty-document-id, duplicate-document-id): looked for document by document.
    """

    partition: str
    documents: tuple[EncodedDocument, ...]
    windowing: Windowing

    def __post_init__(self) -> None:
        first_position: dict[str, int] = {}
        for index, document in enumerate(self.documents):
            if not document.identifier:
                raise BatchError("empty-document-id", document_index=index)
            if document.partition != self.partition:
                raise BatchError(
                    "partition-mismatch", document_index=index, expected=self.partition, actual=document.partition
                )
            first = first_position.setdefault(document.identifier, index)
            if first != index:
                raise BatchError("duplicate-document-id", identifier=document.identifier, first=first, repeated=index)

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
        BatchError (zero-batch-size): the batch size is below 1.
    """
    return _slices(epoch.slots(), batch_size)


def shuffled_plan(epoch: Epoch, batch_size: int, generator: RandomBits) -> tuple[Batch, ...]:
    """Cut the windows of an epoch into batches, after one Fisher–Yates shuffle.

    Raises:
        BatchError (zero-batch-size): the batch size is below 1 (nothing is drawn then).
    """
    if batch_size < 1:
        raise BatchError("zero-batch-size")
    slots = epoch.slots()
    shuffle(slots, generator)
    return _slices(slots, batch_size)


def _slices(slots: Sequence[Slot], batch_size: int) -> tuple[Batch, ...]:
    if batch_size < 1:
        raise BatchError("zero-batch-size")
    return tuple(tuple(slots[start : start + batch_size]) for start in range(0, len(slots), batch_size))
