"""The held-out split: a manifest assigns every document of a corpus to train, validation or test.

Documents of one provenance group (translations of each other, say) stay on one side, so that nothing leaks (course,
chapter 2). The manifest is an object with exactly six keys, or the six values as an array in this order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from cai_reference.text import strict_json
from cai_reference.text.corpus import Corpus, Document
from cai_reference.text.errors import (
    ChecksumMismatch,
    DocumentAssignedTwice,
    EmptyPartition,
    InvalidManifestJson,
    PartitionOrder,
    SplitGroup,
    UncoveredDocument,
    UnknownDocument,
    UnsupportedSchemaVersion,
    UnsupportedStrategy,
)

SCHEMA_VERSION: Final = 1
STRATEGY: Final = "fixed-paired-document-holdout-v1"
PARTITIONS: Final = ("train", "validation", "test")
MANIFEST_KEYS: Final = ("schema_version", "corpus_checksum", "strategy", *PARTITIONS)


@dataclass(frozen=True)
class Manifest:
    """A parsed split manifest; whether it fits a corpus is checked by `partition`."""

    schema_version: int
    corpus_checksum: str
    strategy: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The three lists of document ids with their labels, in the order of checking."""
        return ("train", self.train), ("validation", self.validation), ("test", self.test)


@dataclass(frozen=True)
class Partition:
    """The documents of a corpus by role, each list in corpus file order."""

    train: tuple[Document, ...]
    validation: tuple[Document, ...]
    test: tuple[Document, ...]


def parse_manifest(data: bytes) -> Manifest:
    """Read the bytes of a split manifest.

    Raises:
        InvalidManifestJson: not JSON, or another shape; `schema_version` has to be an integer of 32 unsigned bits.
    """
    try:
        value = strict_json.parse(data)
    except strict_json.JsonProblem as error:
        raise InvalidManifestJson(str(error)) from None
    if isinstance(value, list):
        if len(value) != len(MANIFEST_KEYS):
            raise InvalidManifestJson(f"expected 6 elements, found {len(value)}")
        value = strict_json.Object(zip(MANIFEST_KEYS, value, strict=True))
    if not isinstance(value, strict_json.Object):
        raise InvalidManifestJson("expected an object")
    for key in value:
        if key not in MANIFEST_KEYS:
            raise InvalidManifestJson(f"unknown key {key!r}")
    for key in MANIFEST_KEYS:
        if key not in value:
            raise InvalidManifestJson(f"missing key {key!r}")
    version = value["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 1 << 32:
        raise InvalidManifestJson("key 'schema_version' is not an unsigned 32-bit integer")
    return Manifest(
        version,
        _string(value, "corpus_checksum"),
        _string(value, "strategy"),
        *(_identifiers(value, label) for label in PARTITIONS),
    )


def partition(manifest: Manifest, corpus: Corpus) -> Partition:
    """Assign the documents of `corpus` as `manifest` says, after seven checks of which the first failure wins.

    Raises:
        UnsupportedSchemaVersion, UnsupportedStrategy, ChecksumMismatch: the manifest is of another kind, or for other
            bytes.
        EmptyPartition, PartitionOrder: a list is empty or out of order (an id repeated inside one list is out of
            order).
        UnknownDocument, DocumentAssignedTwice, UncoveredDocument, SplitGroup: the lists do not split the corpus
            cleanly.
    """
    if manifest.schema_version != SCHEMA_VERSION:
        raise UnsupportedSchemaVersion(manifest.schema_version)
    if manifest.strategy != STRATEGY:
        raise UnsupportedStrategy(manifest.strategy)
    if manifest.corpus_checksum != corpus.checksum:
        raise ChecksumMismatch(manifest.corpus_checksum, corpus.checksum)
    position = {document.identifier: place for place, document in enumerate(corpus.documents)}
    for label, identifiers in manifest.lists():
        if not identifiers:
            raise EmptyPartition(label)
        # Unknown ids have no position; they are reported by the next check.
        known = [position[identifier] for identifier in identifiers if identifier in position]
        if any(later <= earlier for earlier, later in itertools.pairwise(known)):
            raise PartitionOrder(label)
    assigned = _assign(manifest, position)
    for document in corpus.documents:
        if document.identifier not in assigned:
            raise UncoveredDocument(document.identifier)
    _keep_groups_together(corpus, assigned)
    return Partition(
        *(
            tuple(document for document in corpus.documents if assigned[document.identifier] == label)
            for label in PARTITIONS
        )
    )


def _assign(manifest: Manifest, position: dict[str, int]) -> dict[str, str]:
    assigned: dict[str, str] = {}
    for label, identifiers in manifest.lists():
        for identifier in identifiers:
            if identifier not in position:
                raise UnknownDocument(label, identifier)
            if identifier in assigned:
                raise DocumentAssignedTwice(identifier)
            assigned[identifier] = label
    return assigned


def _keep_groups_together(corpus: Corpus, assigned: dict[str, str]) -> None:
    members: dict[str, list[str]] = {}
    for document in corpus.documents:
        members.setdefault(document.provenance_group, []).append(document.identifier)
    # Groups stand in the order of their first documents, so the first split group found is the one to report.
    for group, (first, *others) in members.items():
        for other in others:
            if assigned[other] != assigned[first]:
                raise SplitGroup(group, first, other)


def _string(value: strict_json.Object, key: str) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise InvalidManifestJson(f"key {key!r} is not a string")
    return text


def _identifiers(value: strict_json.Object, key: str) -> tuple[str, ...]:
    items = value[key]
    if not isinstance(items, list):
        raise InvalidManifestJson(f"key {key!r} is not an array of strings")
    identifiers = tuple(item for item in items if isinstance(item, str))
    if len(identifiers) != len(items):
        raise InvalidManifestJson(f"key {key!r} is not an array of strings")
    return identifiers
