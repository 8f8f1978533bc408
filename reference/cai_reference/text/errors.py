"""Errors of the text room: corpora, partitions, merges, token ids, windows and batches.

Sources: course, chapters 2–5 and 21 (the error variants and what their texts carry).
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


class TextError(CaiReferenceError):
    """Something about text or tokens is wrong."""


# ── corpus and manifest ──────────────────────────────────────────────────────────────────────────────────────────────


class CorpusError(TextError):
    """A corpus or a split manifest breaks a rule."""


@dataclass(eq=False)
class InvalidCorpusJson(CorpusError):
    """The corpus file is not JSON, or not of the published schema."""

    template = "invalid corpus JSON: {problem}"
    problem: str


@dataclass(eq=False)
class InvalidManifestJson(CorpusError):
    """The split manifest is not JSON, or not of the published schema."""

    template = "invalid split manifest JSON: {problem}"
    problem: str


@dataclass(eq=False)
class CorpusTooLarge(CorpusError):
    """The corpus is beyond the stated limit; everything is held in memory and recounted for each merge."""

    template = "the corpus holds {size} bytes; the limit is {limit}"
    size: int
    limit: int


@dataclass(eq=False)
class EmptyCorpus(CorpusError):
    """The array of documents is empty."""

    template = "the corpus has no documents"


@dataclass(eq=False)
class InvalidIdentifier(CorpusError):
    """An id, language or group is not kebab case. `document` counts from 1."""

    template = "document {document}: {label} {value!r} is not lowercase ASCII kebab case"
    document: int
    label: str
    value: str


@dataclass(eq=False)
class BlankText(CorpusError):
    """A document holds nothing but white space. `document` counts from 1."""

    template = "document {document}: text is empty"
    document: int


@dataclass(eq=False)
class DuplicateDocument(CorpusError):
    """Two documents share an id."""

    template = "document id {identifier!r} stands twice in the corpus"
    identifier: str


@dataclass(eq=False)
class DuplicateText(CorpusError):
    """Two documents share their text, which could then stand on both sides of a split."""

    template = "two documents hold identical content, which would leak across partitions"


@dataclass(eq=False)
class UnsupportedSchemaVersion(CorpusError):
    """The manifest is of a schema version that is not known."""

    template = "split manifest schema version {version} is not supported; expected 1"
    version: int


@dataclass(eq=False)
class UnsupportedStrategy(CorpusError):
    """The manifest names a split strategy that is not known."""

    template = "split strategy {strategy!r} is not supported"
    strategy: str


@dataclass(eq=False)
class ChecksumMismatch(CorpusError):
    """The manifest was made for other bytes."""

    template = "the manifest names corpus checksum {manifest}, but the corpus has {corpus}"
    manifest: str
    corpus: str


@dataclass(eq=False)
class EmptyPartition(CorpusError):
    """A partition lists no documents."""

    template = "the {partition} partition is empty"
    partition: str


@dataclass(eq=False)
class PartitionOrder(CorpusError):
    """A partition does not list its documents in the order of the corpus file."""

    template = "the {partition} partition does not follow the source order"
    partition: str


@dataclass(eq=False)
class UnknownDocument(CorpusError):
    """A partition lists an id that the corpus does not have."""

    template = "the {partition} partition lists document {identifier!r}, which the corpus does not have"
    partition: str
    identifier: str


@dataclass(eq=False)
class DocumentAssignedTwice(CorpusError):
    """An id stands in two partitions."""

    template = "document {identifier!r} has more than one manifest position"
    identifier: str


@dataclass(eq=False)
class UncoveredDocument(CorpusError):
    """A document of the corpus stands in no partition."""

    template = "document {identifier!r} stands in no partition"
    identifier: str


@dataclass(eq=False)
class SplitGroup(CorpusError):
    """Documents of one provenance group stand in different partitions: its first, and the first assigned elsewhere."""

    template = "group {group!r} is split over partitions: documents {identifier!r} and {other!r}"
    group: str
    identifier: str
    other: str


# ── byte-pair training and coding ────────────────────────────────────────────────────────────────────────────────────


class BpeTrainingError(TextError):
    """Merges cannot be learned."""


@dataclass(eq=False)
class TooManyMerges(BpeTrainingError):
    """The last merged id would not fit into 32 bits."""

    template = "{requested} requested merges exceed u32 token ids; the limit is {limit}"
    requested: int
    limit: int


@dataclass(eq=False)
class NegativeMerges(BpeTrainingError):
    """A number of merges below zero was asked for."""

    template = "{requested} merges cannot be learned: the number must not be negative"
    requested: int


class BpeTokenizerError(TextError):
    """A vocabulary or a sequence of ids is not valid."""


@dataclass(eq=False)
class LayoutOverflow(BpeTokenizerError):
    """The top id of the vocabulary would not fit into 32 bits."""

    template = "{merge_count} merges leave no room for token ids in 32 bits"
    merge_count: int


@dataclass(eq=False)
class UnknownMergeOperand(BpeTokenizerError):
    """A merge refers to an id that no earlier rule makes."""

    template = "merge {rank} refers to training token {token_id}, which no earlier rule makes"
    rank: int
    token_id: int


@dataclass(eq=False)
class DuplicateMergePair(BpeTokenizerError):
    """Two merges join the same pair, so that the second could never apply."""

    template = "merge {rank} repeats the pair ({left}, {right})"
    rank: int
    left: int
    right: int


@dataclass(eq=False)
class ControlTokenInContent(BpeTokenizerError):
    """BOS or EOS stands inside content."""

    template = "control token {token_id} stands inside content at position {position}"
    position: int
    token_id: int


@dataclass(eq=False)
class UnknownToken(BpeTokenizerError):
    """An id is beyond the vocabulary."""

    template = "token {token_id} at position {position} is not in the vocabulary"
    position: int
    token_id: int


@dataclass(eq=False)
class DocumentTooShort(BpeTokenizerError):
    """A document needs at least BOS and EOS."""

    template = "a document of {length} tokens cannot hold BOS and EOS"
    length: int


@dataclass(eq=False)
class ExpectedBos(BpeTokenizerError):
    """A document does not open with BOS."""

    template = "a document opens with BOS, found token {found}"
    found: int


@dataclass(eq=False)
class ExpectedEos(BpeTokenizerError):
    """A document does not close with EOS."""

    template = "a document closes with EOS, found token {found}"
    found: int


@dataclass(eq=False)
class InteriorControlToken(BpeTokenizerError):
    """BOS or EOS stands between the first and the last token of a document."""

    template = "control token {token_id} stands inside the document at position {position}"
    position: int
    token_id: int


@dataclass(eq=False)
class InvalidUtf8(BpeTokenizerError):
    """Decoded bytes are not UTF-8. `error_length` is None where the text ends inside a character."""

    template = "the decoded bytes are UTF-8 only up to byte {valid_up_to}"
    valid_up_to: int
    error_length: int | None


# ── windows and batches ──────────────────────────────────────────────────────────────────────────────────────────────


class WindowError(TextError):
    """A window configuration is not valid."""


@dataclass(eq=False)
class ZeroContextLength(WindowError):
    """A window needs at least one input token."""

    template = "the context length must be at least 1"


@dataclass(eq=False)
class ZeroStride(WindowError):
    """Windows need to move on."""

    template = "the stride must be at least 1"


class BatchError(TextError):
    """An epoch or a mini-batch is not valid."""


@dataclass(eq=False)
class ZeroBatchSize(BatchError):
    """A batch needs room for at least one window."""

    template = "the batch size must be at least 1"


@dataclass(eq=False)
class EmptyDocumentId(BatchError):
    """A document of an epoch has no id."""

    template = "document {document_index} of the epoch has an empty id"
    document_index: int


@dataclass(eq=False)
class PartitionMismatch(BatchError):
    """A document of another partition was given to an epoch."""

    template = "document {document_index} belongs to the {actual} partition, the epoch to {expected}"
    document_index: int
    expected: str
    actual: str


@dataclass(eq=False)
class DuplicateDocumentId(BatchError):
    """An epoch lists the same document twice."""

    template = "document {identifier!r} stands at positions {first} and {repeated} of the epoch"
    identifier: str
    first: int
    repeated: int


@dataclass(eq=False)
class ContributionCountMismatch(BatchError):
    """A gradient average was given another number of contributions than it was opened for."""

    template = "expected {expected} gradient contributions, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class ZeroGradientWidth(BatchError):
    """A gradient needs at least one coordinate."""

    template = "the gradient width must be at least 1"


@dataclass(eq=False)
class GradientWidthMismatch(BatchError):
    """A contribution is of another width than the average."""

    template = "expected a gradient of width {expected}, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class NonFiniteLoss(BatchError):
    """A contribution carries a loss that is not finite."""

    template = "the loss {value} is not finite"
    value: float


@dataclass(eq=False)
class NonFiniteGradient(BatchError):
    """A contribution carries a gradient that is not finite."""

    template = "the gradient at coordinate {coordinate} is {value}, which is not finite"
    coordinate: int
    value: float


@dataclass(eq=False)
class NonFiniteAccumulation(BatchError):
    """A running sum left the range of binary64. `coordinate` is None for the loss."""

    template = "the accumulated {quantity}{place} is {value}, which is not finite"
    quantity: str
    coordinate: int | None
    value: float

    def __str__(self) -> str:
        place = "" if self.coordinate is None else f" at coordinate {self.coordinate}"
        return self.template.format(quantity=self.quantity, place=place, value=self.value)


@dataclass(eq=False)
class EmptyAccumulator(BatchError):
    """An average of no contributions does not exist."""

    template = "no contributions were added, so there is no average"
