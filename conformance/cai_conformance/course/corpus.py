"""The corpus of chapter 39: documents by role, the tokenizer that is trained on some of them, and their windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cai_conformance.errors import FixtureError
from cai_reference.errors import CaiReferenceError
from cai_reference.text import (
    BpeTokenizer,
    Document,
    EncodedDocument,
    Epoch,
    Manifest,
    Windowing,
    parse_corpus,
    parse_manifest,
    partition,
    train,
)


@dataclass(frozen=True)
class CourseCorpus:
    """A corpus that was split.

    Attributes:
        manifest: how.
        documents: by partition, in the order of the corpus.
    """

    manifest: Manifest
    documents: dict[str, tuple[Document, ...]]

    @classmethod
    def of(cls, corpus: bytes, splits: bytes) -> CourseCorpus:
        """Read a corpus file and its manifest.

        Raises:
            FixtureError: they are not valid, or do not fit each other.
        """
        stage = "Corpus"
        try:
            documents = parse_corpus(corpus)
            stage = "Split"
            manifest = parse_manifest(splits)
            split = partition(manifest, documents)
        except CaiReferenceError as error:
            raise FixtureError(stage, str(error)) from error
        return cls(manifest, {"train": split.train, "validation": split.validation, "test": split.test})

    def identifiers(self, role: str) -> tuple[str, ...]:
        """Return the names of the documents of a partition."""
        return tuple(document.identifier for document in self.documents[role])

    def encoded(self, role: str, tokenizer: BpeTokenizer) -> tuple[EncodedDocument, ...]:
        """Return the ids of the documents of a partition, BOS and EOS included."""
        return tuple(
            EncodedDocument(one.identifier, role, tuple(tokenizer.encode_document(one.text)))
            for one in self.documents[role]
        )

    def epoch(self, role: str, tokenizer: BpeTokenizer, context: int) -> Epoch:
        """Return the windows of a partition."""
        return Epoch(role, self.encoded(role, tokenizer), Windowing(context))


@dataclass(frozen=True)
class TrainedTokenizer:
    """Byte-pair merges, and the documents that they were counted on."""

    requested: int
    documents: tuple[Document, ...]

    @cached_property
    def tokenizer(self) -> BpeTokenizer:
        """The tokenizer; the merges may be fewer than requested."""
        texts = [document.text.encode() for document in self.documents]
        return BpeTokenizer([merge.pair for merge in train(texts, self.requested)])
