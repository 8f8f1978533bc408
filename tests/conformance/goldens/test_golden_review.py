"""What a person is shown before a change is accepted."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.goldens import FileReview, GoldenStore, LineCounts, review
from cai_conformance.goldens.errors import GoldenDisagrees, NameUnusable
from cai_conformance.goldens.review import _lines
from support_golden_store import make


def test_review_of_a_new_golden(store: GoldenStore) -> None:
    """Where nothing was accepted yet, every line is an added line."""
    found = review(store, "course.ngram", {"trace.txt": b"a\nb\n"})
    after = hashlib.sha256(b"a\nb\n").hexdigest()
    assert (FileReview("trace.txt", None, after, None, 4, LineCounts(2, 0)),) == found.changed
    assert (True, True, ()) == (found.is_new, found.changes, found.unchanged)


def test_review_of_a_change(store: GoldenStore) -> None:
    """Hashes and sizes before and after; lines only for the trace; files that stay are named."""
    store.accept_all([make(weights_safetensors=b"W", vectors_json=b"V")], reason="first")
    found = review(store, "course.ngram", {"trace.txt": b"x\ny\n", "weights.safetensors": b"WW"})
    trace, weights = found.changed
    assert LineCounts(2, 1) == trace.lines
    assert ("weights.safetensors", 1, 2, None) == (weights.name, weights.size_before, weights.size_after, weights.lines)
    assert hashlib.sha256(b"W").hexdigest() == weights.sha256_before
    assert (("vectors.json",), False) == (found.unchanged, found.is_new)


def test_review_of_no_change(store: GoldenStore) -> None:
    """Equal files change nothing, and reviewing writes nothing."""
    store.accept_all([make()], reason="first")
    found = review(store, "course.ngram", make().files)
    assert (False, (), ("trace.txt",)) == (found.changes, found.changed, found.unchanged)


def test_review_needs_a_sound_golden(store: GoldenStore) -> None:
    """A difference against a file that nobody accepted would mislead."""
    store.accept_all([make()], reason="first")
    (store.root / "course.ngram" / "trace.txt").write_bytes(b"vandalised")
    with pytest.raises(GoldenDisagrees):
        review(store, "course.ngram", {"trace.txt": b""})
    with pytest.raises(NameUnusable):
        review(store, "course.ngram", {"a/b": b""})


def test_lines_that_only_move_are_said_to_move() -> None:
    """A swap of two records adds and removes nothing, and is still a change."""
    assert LineCounts(0, 0, moved=True) == _lines(b"a\nb\n", b"b\na\n")
    assert LineCounts(1, 1) == _lines(b"a\nb\n", b"a\nb\r\n")
    assert LineCounts(1, 0) == _lines(b"a\n", b"a\nb")


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_lines_are_counted_as_a_multiset(before: list[str], after: list[str]) -> None:
    """What is added less what is removed is the difference of the line counts, and both are multiset differences."""
    counts = _lines("".join(f"{x}\n" for x in before).encode(), "".join(f"{x}\n" for x in after).encode())
    assert len(after) - len(before) == counts.added - counts.removed
    assert sum((Counter(after) - Counter(before)).values()) == counts.added
