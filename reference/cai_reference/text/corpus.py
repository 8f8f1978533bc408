"""A corpus: documents with an id, a language, a provenance group and a text.

The file is one JSON array. Each document is an object with exactly four string keys, or the same four values as an
array in this order (course, chapter 2). The checks run in file order and the first failure wins.

The held-out split, a manifest, assigns every document of a corpus to train, validation or test.

Documents of one provenance group (translations of each other, say) stay on one side, so that nothing leaks (course,
chapter 2). The manifest is an object with exactly six keys, or the six values as an array in this order.
A checksum ties it to the exact bytes of its corpus: FNV-1a of 64 bits, which guards against accidents, not against
attackers (Fowler, Noll and Vo; draft-eastlake-fnv).

    fnv1a64(b"hello")  →  0xa430d84680aabd0b
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from cai_reference.text import strict_json
from cai_reference.text.errors import CorpusError

OFFSET_BASIS: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = (1 << 64) - 1


def fnv1a64(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of `data`."""
    value = OFFSET_BASIS
    for byte in data:
        value = ((value ^ byte) * PRIME) & MASK
    return value


def corpus_checksum(data: bytes) -> str:
    """Return the checksum of a corpus file as manifests spell it: `fnv1a64:` and sixteen lower-case hex digits."""
    return f"fnv1a64:{fnv1a64(data):016x}"


MAXIMUM_BYTES: Final = 1 << 20
DOCUMENT_KEYS: Final = ("id", "language", "provenance_group", "text")

# The Unicode property White_Space. Python's str.strip also takes U+001C…U+001F, which are text here.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class Document:
    """One text with where it comes from."""

    identifier: str
    language: str
    provenance_group: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Documents in file order, and the checksum of the exact bytes of the file."""

    documents: tuple[Document, ...]
    checksum: str


def parse_corpus(data: bytes) -> Corpus:
    """Read and check the bytes of a corpus file.

    Raises:
        CorpusError (corpus-too-large): more than `MAXIMUM_BYTES` bytes.
        CorpusError (invalid-corpus-json): not JSON, or another shape.
        CorpusError (empty-corpus, invalid-identifier, blank-text, duplicate-document, duplicate-text): a rule of the
            corpus is broken.
    """
    if len(data) > MAXIMUM_BYTES:
        raise CorpusError("corpus-too-large", size=len(data), limit=MAXIMUM_BYTES)
    documents = _documents(data)
    _check(documents)
    return Corpus(documents, corpus_checksum(data))


def is_kebab_case(name: str) -> bool:
    """Tell whether a name is lowercase ASCII kebab case: `a-1` is, `1-a`, `a-`, `a--b` and `a_b` are not.

    The first byte is a letter; between hyphens stand one or more lower-case letters and digits.
    """
    letters, digits = set("abcdefghijklmnopqrstuvwxyz"), set("0123456789")
    pieces = name.split("-")
    return all(piece and set(piece) <= letters | digits for piece in pieces) and name[0] in letters


def _documents(data: bytes) -> tuple[Document, ...]:
    try:
        value = strict_json.parse(data)
    except strict_json.JsonProblem as error:
        raise CorpusError("invalid-corpus-json", problem=str(error)) from None
    if not isinstance(value, list):
        raise CorpusError("invalid-corpus-json", problem="expected an array of documents")
    return tuple(_document(number, item) for number, item in enumerate(value, start=1))


def _document(number: int, value: strict_json.Json) -> Document:
    if isinstance(value, list):
        if len(value) != len(DOCUMENT_KEYS):
            raise CorpusError(
                "invalid-corpus-json", problem=f"document {number}: expected 4 elements, found {len(value)}"
            )
        value = strict_json.Object(zip(DOCUMENT_KEYS, value, strict=True))
    if not isinstance(value, strict_json.Object):
        raise CorpusError("invalid-corpus-json", problem=f"document {number}: expected an object")
    for key in value:
        if key not in DOCUMENT_KEYS:
            raise CorpusError("invalid-corpus-json", problem=f"document {number}: unknown key {key!r}")
    return Document(*(_document_text(number, value, key) for key in DOCUMENT_KEYS))


def _document_text(number: int, value: strict_json.Object, key: str) -> str:
    if key not in value:
        raise CorpusError("invalid-corpus-json", problem=f"document {number}: missing key {key!r}")
    text = value[key]
    if not isinstance(text, str):
        raise CorpusError("invalid-corpus-json", problem=f"document {number}: key {key!r} is not a string")
    return text


def _check(documents: tuple[Document, ...]) -> None:
    if not documents:
        raise CorpusError("empty-corpus")
    identifiers: set[str] = set()
    texts: set[str] = set()
    for number, document in enumerate(documents, start=1):
        for label, name in (
            ("document ID", document.identifier),
            ("language", document.language),
            ("provenance group", document.provenance_group),
        ):
            if not is_kebab_case(name):
                raise CorpusError("invalid-identifier", document=number, label=label, value=name)
        if not document.text.strip(WHITE_SPACE):
            raise CorpusError("blank-text", document=number)
        if document.identifier in identifiers:
            raise CorpusError("duplicate-document", identifier=document.identifier)
        if document.text in texts:
            raise CorpusError("duplicate-text")
        identifiers.add(document.identifier)
        texts.add(document.text)


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
        CorpusError (invalid-manifest-json): not JSON, or another shape; `schema_version` has to be an integer of 32
            unsigned bits.
    """
    try:
        value = strict_json.parse(data)
    except strict_json.JsonProblem as error:
        raise CorpusError("invalid-manifest-json", problem=str(error)) from None
    if isinstance(value, list):
        if len(value) != len(MANIFEST_KEYS):
            raise CorpusError("invalid-manifest-json", problem=f"expected 6 elements, found {len(value)}")
        value = strict_json.Object(zip(MANIFEST_KEYS, value, strict=True))
    if not isinstance(value, strict_json.Object):
        raise CorpusError("invalid-manifest-json", problem="expected an object")
    for key in value:
        if key not in MANIFEST_KEYS:
            raise CorpusError("invalid-manifest-json", problem=f"unknown key {key!r}")
    for key in MANIFEST_KEYS:
        if key not in value:
            raise CorpusError("invalid-manifest-json", problem=f"missing key {key!r}")
    version = value["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 1 << 32:
        raise CorpusError("invalid-manifest-json", problem="key 'schema_version' is not an unsigned 32-bit integer")
    return Manifest(
        version,
        _manifest_text(value, "corpus_checksum"),
        _manifest_text(value, "strategy"),
        *(_identifiers(value, label) for label in PARTITIONS),
    )


def partition(manifest: Manifest, corpus: Corpus) -> Partition:
    """Assign the documents of `corpus` as `manifest` says, after seven checks of which the first failure wins.

    Raises:
        CorpusError (unsupported-schema-version, unsupported-strategy, checksum-mismatch): the manifest is of another
            kind, or for other
            bytes.
        CorpusError (empty-partition, partition-order): a list is empty or out of order (an id repeated inside one list
            is out of
            order).
        CorpusError (unknown-document, document-assigned-twice, uncovered-document, split-group): the lists do not split
            the corpus
            cleanly.
    """
    if manifest.schema_version != SCHEMA_VERSION:
        raise CorpusError("unsupported-schema-version", version=manifest.schema_version)
    if manifest.strategy != STRATEGY:
        raise CorpusError("unsupported-strategy", strategy=manifest.strategy)
    if manifest.corpus_checksum != corpus.checksum:
        raise CorpusError("checksum-mismatch", manifest=manifest.corpus_checksum, corpus=corpus.checksum)
    position = {document.identifier: place for place, document in enumerate(corpus.documents)}
    for label, identifiers in manifest.lists():
        if not identifiers:
            raise CorpusError("empty-partition", partition=label)
        # Unknown ids have no position; they are reported by the next check.
        known = [position[identifier] for identifier in identifiers if identifier in position]
        if any(later <= earlier for earlier, later in itertools.pairwise(known)):
            raise CorpusError("partition-order", partition=label)
    assigned = _assign(manifest, position)
    for document in corpus.documents:
        if document.identifier not in assigned:
            raise CorpusError("uncovered-document", identifier=document.identifier)
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
                raise CorpusError("unknown-document", partition=label, identifier=identifier)
            if identifier in assigned:
                raise CorpusError("document-assigned-twice", identifier=identifier)
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
                raise CorpusError("split-group", group=group, identifier=first, other=other)


def _manifest_text(value: strict_json.Object, key: str) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise CorpusError("invalid-manifest-json", problem=f"key {key!r} is not a string")
    return text


def _identifiers(value: strict_json.Object, key: str) -> tuple[str, ...]:
    items = value[key]
    if not isinstance(items, list):
        raise CorpusError("invalid-manifest-json", problem=f"key {key!r} is not an array of strings")
    identifiers = tuple(item for item in items if isinstance(item, str))
    if len(identifiers) != len(items):
        raise CorpusError("invalid-manifest-json", problem=f"key {key!r} is not an array of strings")
    return identifiers
