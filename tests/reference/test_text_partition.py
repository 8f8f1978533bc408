"""Seven checks of a split manifest against its corpus, in order, and the lists that come out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cai_reference.errors import CaiReferenceError
from cai_reference.text.corpus import Manifest, parse_corpus, parse_manifest, partition
from cai_reference.text.errors import CorpusError
from support_corpora import corpus_of, manifest_for
from support_course import CORPUS, SPLITS, needs_corpus
from support_refusals import raises

CORPUS_OF_FIVE = corpus_of(("a", "g"), ("b", "g"), ("c", "h"), ("d", "i"), ("e", "i"))
CHECKSUM = CORPUS_OF_FIVE.checksum


def split(train: str, validation: str, test: str) -> Manifest:
    """Return a manifest over the five documents; every letter is an id."""
    return manifest_for(CORPUS_OF_FIVE, list(train), list(validation), list(test))


def test_a_clean_split_keeps_the_order_of_the_file() -> None:
    """Three lists of documents."""
    parts = partition(split("ab", "c", "de"), CORPUS_OF_FIVE)
    assert (["a", "b"], ["c"], ["d", "e"]) == tuple(
        [member.identifier for member in part] for part in (parts.train, parts.validation, parts.test)
    )


def test_the_lists_may_take_documents_from_anywhere() -> None:
    """A partition is any subset, not a range of the file."""
    parts = partition(split("c", "de", "ab"), CORPUS_OF_FIVE)
    assert "ab" == "".join(member.identifier for member in parts.test)


# Each manifest breaks its own rule and every later one that can be broken at the same time.
BROKEN: dict[str, tuple[Manifest, CaiReferenceError]] = {
    "schema version": (Manifest(2, "other", "other", (), (), ()), CorpusError("unsupported-schema-version", version=2)),
    "strategy": (Manifest(1, "other", "other", (), (), ()), CorpusError("unsupported-strategy", strategy="other")),
    "checksum": (
        replace(split("", "", ""), corpus_checksum="other"),
        CorpusError("checksum-mismatch", manifest="other", corpus=CORPUS_OF_FIVE.checksum),
    ),
    "empty train": (split("", "ba", "zz"), CorpusError("empty-partition", partition="train")),
    "order in train before empty validation": (split("ba", "", ""), CorpusError("partition-order", partition="train")),
    "empty validation before order in test": (
        split("az", "", "ba"),
        CorpusError("empty-partition", partition="validation"),
    ),
    "order in validation": (split("z", "ba", ""), CorpusError("partition-order", partition="validation")),
    "empty test": (split("z", "a", ""), CorpusError("empty-partition", partition="test")),
    "order in test before unknown ids": (split("z", "a", "cb"), CorpusError("partition-order", partition="test")),
    "repeated inside a list is out of order": (
        split("aa", "b", "c"),
        CorpusError("partition-order", partition="train"),
    ),
    "unknown ids are skipped by the order": (
        split("azbzc", "d", "e"),
        CorpusError("unknown-document", partition="train", identifier="z"),
    ),
    "order across unknown ids": (split("bza", "d", "e"), CorpusError("partition-order", partition="train")),
    "an earlier repetition before a later unknown id": (
        split("ab", "az", "c"),
        CorpusError("document-assigned-twice", identifier="a"),
    ),
    "an earlier unknown id before a later repetition": (
        split("ab", "za", "c"),
        CorpusError("unknown-document", partition="validation", identifier="z"),
    ),
    "repetition across lists before uncovered": (
        split("ab", "b", "d"),
        CorpusError("document-assigned-twice", identifier="b"),
    ),
    "the first uncovered in file order": (split("a", "c", "e"), CorpusError("uncovered-document", identifier="b")),
    "uncovered before split group": (split("a", "b", "ce"), CorpusError("uncovered-document", identifier="d")),
    "split group": (split("ac", "b", "de"), CorpusError("split-group", group="g", identifier="a", other="b")),
}


@pytest.mark.parametrize(("manifest", "expected"), BROKEN.values(), ids=BROKEN)
def test_the_first_failure_wins(manifest: Manifest, expected: CaiReferenceError) -> None:
    """Version, strategy, checksum, empty and order list by list, unknown and repeated, uncovered, groups."""
    with raises(expected):
        partition(manifest, CORPUS_OF_FIVE)


def test_the_checksum_label_is_case_sensitive() -> None:
    """Checksums are compared as strings."""
    shouted = CORPUS_OF_FIVE.checksum.upper()
    with raises(CorpusError("checksum-mismatch", manifest=shouted, corpus=CHECKSUM)):
        partition(replace(split("ab", "c", "de"), corpus_checksum=shouted), CORPUS_OF_FIVE)


def test_the_first_document_of_a_split_group_is_named() -> None:
    """Of two nested split groups the outer one is reported, with the first document that is assigned elsewhere."""
    corpus = corpus_of(("a", "outer"), ("b", "inner"), ("c", "inner"), ("d", "outer"), ("e", "outer"))
    with raises(CorpusError("split-group", group="outer", identifier="a", other="d")):
        partition(manifest_for(corpus, ["a", "b"], ["c", "d"], ["e"]), corpus)


@needs_corpus
def test_the_published_split_holds() -> None:
    """Eight, two and two documents; each pair of translations stays together."""
    parts = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    names = [[member.identifier for member in part] for part in (parts.train, parts.validation, parts.test)]
    assert [
        [f"{language}-{place}" for place in places for language in ("en", "ru")]
        for places in (["river-dawn", "clock-shop", "rain-library", "bee-garden"], ["night-station"], ["winter-window"])
    ] == names
