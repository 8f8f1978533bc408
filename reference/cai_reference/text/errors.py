"""Errors of the text room: corpora, partitions, merges, token ids, windows and batches.

Sources: course, chapters 2–5 and 21 (the error variants and what their texts carry).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_reference.errors import CaiReferenceError

TEXT_TEMPLATES: Final[Mapping[str, str]] = {
    # ── corpus and manifest
    # The corpus file is not JSON, or not of the published schema.
    "invalid-corpus-json": "invalid corpus JSON: {problem}",
    # The split manifest is not JSON, or not of the published schema.
    "invalid-manifest-json": "invalid split manifest JSON: {problem}",
    # The corpus is beyond the stated limit; everything is held in memory and recounted for each merge.
    "corpus-too-large": "the corpus holds {size} bytes; the limit is {limit}",
    # The array of documents is empty.
    "empty-corpus": "the corpus has no documents",
    # An id, language or group is not kebab case. `document` counts from 1.
    "invalid-identifier": "document {document}: {label} {value!r} is not lowercase ASCII kebab case",
    # A document holds nothing but white space. `document` counts from 1.
    "blank-text": "document {document}: text is empty",
    # Two documents share an id.
    "duplicate-document": "document id {identifier!r} stands twice in the corpus",
    # Two documents share their text, which could then stand on both sides of a split.
    "duplicate-text": "two documents hold identical content, which would leak across partitions",
    # The manifest is of a schema version that is not known.
    "unsupported-schema-version": "split manifest schema version {version} is not supported; expected 1",
    # The manifest names a split strategy that is not known.
    "unsupported-strategy": "split strategy {strategy!r} is not supported",
    # The manifest was made for other bytes.
    "checksum-mismatch": "the manifest names corpus checksum {manifest}, but the corpus has {corpus}",
    # A partition lists no documents.
    "empty-partition": "the {partition} partition is empty",
    # A partition does not list its documents in the order of the corpus file.
    "partition-order": "the {partition} partition does not follow the source order",
    # A partition lists an id that the corpus does not have.
    "unknown-document": "the {partition} partition lists document {identifier!r}, which the corpus does not have",
    # An id stands in two partitions.
    "document-assigned-twice": "document {identifier!r} has more than one manifest position",
    # A document of the corpus stands in no partition.
    "uncovered-document": "document {identifier!r} stands in no partition",
    # Documents of one provenance group stand in different partitions: its first, and the first assigned elsewhere.
    "split-group": "group {group!r} is split over partitions: documents {identifier!r} and {other!r}",
    # ── byte-pair training and coding
    # The last merged id would not fit into 32 bits.
    "too-many-merges": "{requested} requested merges exceed u32 token ids; the limit is {limit}",
    # A number of merges below zero was asked for.
    "negative-merges": "{requested} merges cannot be learned: the number must not be negative",
    # The top id of the vocabulary would not fit into 32 bits.
    "layout-overflow": "{merge_count} merges leave no room for token ids in 32 bits",
    # A merge refers to an id that no earlier rule makes.
    "unknown-merge-operand": "merge {rank} refers to training token {token_id}, which no earlier rule makes",
    # Two merges join the same pair, so that the second could never apply.
    "duplicate-merge-pair": "merge {rank} repeats the pair ({left}, {right})",
    # BOS or EOS stands inside content.
    "control-token-in-content": "control token {token_id} stands inside content at position {position}",
    # An id is beyond the vocabulary.
    "unknown-token": "token {token_id} at position {position} is not in the vocabulary",
    # A document needs at least BOS and EOS.
    "document-too-short": "a document of {length} tokens cannot hold BOS and EOS",
    # A document does not open with BOS.
    "expected-bos": "a document opens with BOS, found token {found}",
    # A document does not close with EOS.
    "expected-eos": "a document closes with EOS, found token {found}",
    # BOS or EOS stands between the first and the last token of a document.
    "interior-control-token": "control token {token_id} stands inside the document at position {position}",
    # Decoded bytes are not UTF-8. `error_length` is None where the text ends inside a character.
    "invalid-utf8": "the decoded bytes are UTF-8 only up to byte {valid_up_to}",
    # ── windows and batches
    # A window needs at least one input token.
    "zero-context-length": "the context length must be at least 1",
    # Windows need to move on.
    "zero-stride": "the stride must be at least 1",
    # A batch needs room for at least one window.
    "zero-batch-size": "the batch size must be at least 1",
    # A document of an epoch has no id.
    "empty-document-id": "document {document_index} of the epoch has an empty id",
    # A document of another partition was given to an epoch.
    "partition-mismatch": "document {document_index} belongs to the {actual} partition, the epoch to {expected}",
    # An epoch lists the same document twice.
    "duplicate-document-id": "document {identifier!r} stands at positions {first} and {repeated} of the epoch",
    # A name is to be read as a token, and no token has it.
    "unknown-special-name": "no special token is called {name!r}; known are {known}",
    # A special token is called by the empty text, which stands everywhere.
    "empty-special-name": "the special token {token_id} has an empty name",
    # A name stands for an id that bytes are encoded to, so that text and token could not be told apart.
    "special-id-is-content": "{name!r} names token {token_id}, which stands for text",
}


class TextError(CaiReferenceError):
    """Something about text or tokens is wrong."""

    templates = TEXT_TEMPLATES


class CorpusError(TextError):
    """A corpus or a split manifest breaks a rule."""


class BpeTokenizerError(TextError):
    """A vocabulary or a sequence of ids is not valid."""


class BatchError(TextError):
    """An epoch or a mini-batch is not valid."""
