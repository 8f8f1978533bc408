"""Learning byte-pair merges: counting, ties, borders, when it stops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cai_reference.text.bpe import MAXIMUM_MERGES, Merge, replace, train
from cai_reference.text.corpus import parse_corpus, parse_manifest, partition
from cai_reference.text.errors import TextError
from support_course import CORPUS, MERGE_COUNTS, MERGES, SPLITS, needs_corpus
from support_ngram_oracle import fit_merges
from support_refusals import raises

A, B, C = b"abc"
small_documents = st.lists(st.text("ab ", max_size=12).map(str.encode), max_size=4)


def test_pairs_overlap_when_counted_but_not_when_replaced() -> None:
    """In aaa the pair counts twice and is replaced once; in aaaa three times and twice."""
    assert (Merge(A, A, 2, 1),) == train([b"aaa"], 1)
    assert (Merge(A, A, 3, 2),) == train([b"aaaa"], 1)


def test_replacing_runs_from_the_left() -> None:
    """The odd one out stays behind on the right."""
    assert [256, A] == replace([A, A, A], (A, A), 256)
    assert [256, 256, B] == replace([A, A, A, A, B], (A, A), 256)
    assert [] == replace([], (A, A), 256)


def test_a_tie_goes_to_the_numerically_smallest_pair() -> None:
    """Left token first, then right; not the pair seen first."""
    assert (A, B) == train([b"ca", b"ba", b"ab"], 1)[0].pair
    assert (A, B) == train([b"ac", b"ab"], 1)[0].pair
    assert (9, 200) == train([bytes([100, 1]), bytes([9, 200])], 1)[0].pair


def test_merged_tokens_compare_as_numbers() -> None:
    """Token 256 is larger than every byte, however it is spelled."""
    # After (255, 255) → 256: the rest is one pair (256, 0) and one (255, 1).
    documents = [b"\xff\xff\x00", b"\xff\xff", b"\xff\x01"]
    assert [(255, 255), (255, 1), (256, 0)] == [merge.pair for merge in train(documents, 3)]


def test_pairs_that_occur_once_are_merged() -> None:
    """There is no minimum count; learning goes on until no pair is left."""
    assert [Merge(A, B, 1, 1), Merge(256, C, 1, 1)] == list(train([b"abc"], 9))


def test_merges_never_cross_documents() -> None:
    """The border between two documents is not a pair, even where it would be the most frequent."""
    assert () == train([b"a", b"b", b"a", b"b", b""], 5)
    assert [(A, B)] == [merge.pair for merge in train([b"ab", b"ab"], 5)]


def test_merges_may_hold_spaces() -> None:
    """There is no splitting into words first."""
    assert [(ord(" "), A), (256, B)] == [merge.pair for merge in train([b" ab ab"], 2)]


def test_counts_are_taken_anew_each_round() -> None:
    """A pair that the first merge broke up is no longer frequent."""
    # ab ×3 wins; bc, twice before, exists no more; (256, c) twice is next.
    assert [Merge(A, B, 3, 3), Merge(256, C, 2, 2)] == list(train([b"abc", b"abc", b"ab"], 2))


def test_no_merges_may_be_asked_for() -> None:
    """Zero is legal, and so is a corpus without text."""
    assert () == train([b"aaaa"], 0)
    assert () == train([], 7)


def test_more_merges_than_ids_are_refused_before_any_work() -> None:
    """2^32 - 256 merges are the most; less than none is refused as well."""
    assert 4294967040 == MAXIMUM_MERGES
    assert [(A, B)] == [merge.pair for merge in train([b"ab"], MAXIMUM_MERGES)]
    with raises(TextError("too-many-merges", requested=MAXIMUM_MERGES + 1, limit=MAXIMUM_MERGES)):
        train([b"ab"], MAXIMUM_MERGES + 1)
    with raises(TextError("negative-merges", requested=-1)):
        train([b"ab"], -1)


@given(small_documents, st.integers(0, 12))
def test_the_plain_replica_learns_the_same(documents: list[bytes], requested: int) -> None:
    """Small alphabets are full of ties and repetitions."""
    assert fit_merges(documents, requested) == [merge.pair for merge in train(documents, requested)]


@given(small_documents, st.integers(0, 12))
def test_counts_and_replacements_agree(documents: list[bytes], requested: int) -> None:
    """A pair of different tokens is replaced as often as counted, a double at most as often, and at least by half."""
    for merge in train(documents, requested):
        if merge.left == merge.right:
            assert merge.count <= 2 * merge.replacements <= 2 * merge.count
        else:
            assert merge.count == merge.replacements


@given(small_documents)
def test_fewer_merges_are_a_prefix_of_more(documents: list[bytes]) -> None:
    """What is learned does not depend on how much is asked for."""
    every = train(documents, 20)
    assert every[:3] == train(documents, 3)


@needs_corpus
def test_the_published_corpus_gives_the_published_merges() -> None:
    """Eight rules from the training texts, each replaced as often as counted."""
    parts = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    learned = train([member.text.encode() for member in parts.train], 8)
    expected = [Merge(*pair, count, count) for pair, count in zip(MERGES, MERGE_COUNTS, strict=True)]
    assert expected == list(learned)
