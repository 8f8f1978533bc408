"""Corpora with their split manifests as files, right and wrong ones, for the tests of what users hand in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cai_reference.text.corpus import corpus_checksum
from support_corpora import STRATEGY, document

FOX = "the quick brown fox jumps over the lazy dog, " * 24


@dataclass(frozen=True)
class Files:
    """A corpus and its manifest on the disk."""

    corpus: Path
    splits: Path

    @property
    def options(self) -> list[str]:
        """The options that hand them in."""
        return ["--corpus", str(self.corpus), "--splits", str(self.splits)]


def write_input(folder: Path, corpus: bytes, splits: bytes) -> Files:
    """Write a corpus and a manifest."""
    files = Files(folder / "corpus.json", folder / "splits.json")
    files.corpus.write_bytes(corpus)
    files.splits.write_bytes(splits)
    return files


def input_of(
    folder: Path,
    texts: Sequence[str] = (FOX, "the dog is quick", "the fox is lazy"),
    groups: Sequence[str] = ("g", "h", "i"),
    changes: Mapping[str, object] | None = None,
) -> Files:
    """Write documents a, b, c, … with these texts and groups; the first trains, the second validates, the rest tests.

    `changes` replace keys of the manifest.
    """
    names = "abcdefgh"[: len(texts)]
    documents = [document(name, text, group=group) for name, text, group in zip(names, texts, groups, strict=True)]
    corpus = json.dumps(documents).encode()
    manifest: Mapping[str, object] = {
        "schema_version": 1,
        "corpus_checksum": corpus_checksum(corpus),
        "strategy": STRATEGY,
        "train": list(names[:1]),
        "validation": list(names[1:2]),
        "test": list(names[2:]),
    }
    return write_input(folder, corpus, json.dumps({**manifest, **(changes or {})}).encode())
