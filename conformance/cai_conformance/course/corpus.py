"""The corpus of chapter 39: documents by partition, the tokenizer that is trained on one of them, and windows."""

from __future__ import annotations

from dataclasses import dataclass

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

    def tokenizer(self, merges: int) -> BpeTokenizer:
        """Return the tokenizer of the training documents; it may have fewer merges than asked for."""
        texts = [document.text.encode() for document in self.documents["train"]]
        return BpeTokenizer([merge.pair for merge in train(texts, merges)])

    def epoch(self, role: str, tokenizer: BpeTokenizer, context: int) -> Epoch:
        """Return the windows of the documents of a partition, BOS and EOS included."""
        documents = tuple(
            EncodedDocument(one.identifier, role, tuple(tokenizer.encode_document(one.text)))
            for one in self.documents[role]
        )
        return Epoch(role, documents, Windowing(context))
