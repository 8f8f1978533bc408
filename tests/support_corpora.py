"""Small corpora and manifests as the bytes that a file would hold, for the tests of the text room."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cai_reference.text.corpus import Corpus, Manifest, parse_corpus

STRATEGY = "fixed-paired-document-holdout-v1"


def document(identifier: str = "a", text: str = "text", language: str = "en", group: str = "g") -> dict[str, str]:
    """Return one document in the published key order."""
    return {"id": identifier, "language": language, "provenance_group": group, "text": text}


def corpus_bytes(*documents: dict[str, str]) -> bytes:
    """Spell documents as a corpus file."""
    return json.dumps(documents).encode()


def manifest_bytes(**changes: object) -> bytes:
    """Spell a manifest over documents a, b and c, with some keys changed."""
    manifest: dict[str, object] = {
        "schema_version": 1,
        "corpus_checksum": "fnv1a64:0000000000000000",
        "strategy": STRATEGY,
        "train": ["a"],
        "validation": ["b"],
        "test": ["c"],
    }
    return json.dumps(manifest | changes).encode()


def corpus_of(*members: tuple[str, str]) -> Corpus:
    """Parse a corpus of documents given as (id, provenance group), each with a text of its own."""
    return parse_corpus(corpus_bytes(*(document(name, f"text of {name}", group=group) for name, group in members)))


def manifest_for(
    corpus: Corpus, train: Sequence[str], validation: Sequence[str], test: Sequence[str], version: int = 1
) -> Manifest:
    """Return a manifest that names the checksum of `corpus`."""
    return Manifest(version, corpus.checksum, STRATEGY, tuple(train), tuple(validation), tuple(test))
