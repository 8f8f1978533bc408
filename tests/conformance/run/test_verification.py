"""Judging a file, and comparing two: notes, differences, refusals, and what a review of goldens says."""

from __future__ import annotations

import pytest

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.errors import TraceError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run import verify as verification
from cai_conformance.run.runner import run_suites
from cai_conformance.run.verify import differences_between, review_lines, verification_of
from cai_conformance.trace.format import format_body
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Problem, Report, Versions
from support_refusals import refuses
from support_traces import SUITE, candidate_of, edges_bytes, field_of, golden_bytes, sealed, with_field, without_bits

STORE = GoldenStore(locate())
NAMES = ("left", "right")


def summary(data: bytes) -> str:
    """Return the one line about a file."""
    found = verification_of(TraceFileBackend("file", data), STORE)
    verdicts = tuple(run_suites([found.run], found.backend, lambda _: True))
    return found.summary(Report("file", Versions("1", "1", "", {}, {}), verdicts))


def body(data: bytes | None = None) -> bytes:
    """Return the body of a trace, the golden's if none is given."""
    return format_body(parse(golden_bytes() if data is None else data, grammar_of).body).encode()


def test_a_right_file_is_summed_up() -> None:
    """Suite, profile, arithmetic and counts."""
    assert summary(golden_bytes()).startswith("file: course.ngram 1.1.0, profile golden, strict/1: 12 checks pass, ")
    of_edges = sum(len(check.cases) or 1 for check in SUITE.checks if check.of_edges)
    rest = len(SUITE.check_ids()) - of_edges
    expected = f"file: course.ngram 1.1.0, profile edges, strict/1: {of_edges} checks pass, {rest} skipped"
    assert expected == summary(edges_bytes())


def test_the_first_failure_is_told_and_the_rest_counted() -> None:
    """Outcome, check and message."""
    expected = "file: fail course.ngram::data.split: CONFIG, field lr: value, expected 0.010000, found 0.020000"
    assert expected == summary(with_field("CONFIG", "lr", "0.020000"))
    line = summary(with_field("LOSS|step=15|", "train", "5.500000"))
    assert line.startswith("file: fail course.ngram::trace.recount: LOSS step=15, field train: prints 5.500000, but ")
    assert line.endswith("; 1 more check did not pass, see --verbose")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file: the trace is cut off before its first record is complete: the file is empty"),
        (golden_bytes()[:-1], "file: line 31, BITS step=15: the trace is cut off after this record: the last line"),
        (with_field("TRACE", "arithmetic", "numpy"), "file: line 1, TRACE, field arithmetic: unknown arithmetic "),
        (with_field("TRACE", "suite", "a.b"), "file: line 1, TRACE, field suite: suite a.b is unknown"),
        (with_field("TRACE", "profile", "none"), "file: line 1, TRACE, field profile: profile none is unknown"),
    ],
)
def test_a_broken_envelope_is_an_error_with_its_place(data: bytes, message: str) -> None:
    """The name of the file, line, record and field."""
    with refuses(TraceError, "envelope-fault") as caught:
        verification_of(TraceFileBackend("file", data), STORE)
    assert str(caught.value).startswith(message)


def test_a_wrong_digest_is_traced_to_the_record() -> None:
    """Where the golden can tell, and only there."""
    with refuses(TraceError, "envelope-fault") as caught:
        verification_of(TraceFileBackend("file", golden_bytes().replace(b"lr=0.01", b"lr=0.02")), STORE)
    assert str(caught.value).endswith(
        "; first difference from the golden: CONFIG, field lr: value, expected 0.010000, found 0.020000"
    )
    with refuses(TraceError, "envelope-fault") as caught:
        verification_of(TraceFileBackend("file", edges_bytes().replace(b"draw=0", b"draw=1", 1)), STORE)
    assert "first difference" not in str(caught.value)
    with refuses(TraceError, "envelope-fault") as caught:
        data = golden_bytes().replace(field_of("END", "digest").encode(), b"sha256:" + b"0" * 64)
        verification_of(TraceFileBackend("file", data), STORE)
    assert "first difference" not in str(caught.value)


class TestDifferences:
    """Two traces, aligned by key."""

    def test_a_trace_does_not_differ_from_itself(self) -> None:
        """Neither differences nor notes."""
        found = differences_between(golden_bytes(), golden_bytes(), NAMES)
        assert ((), ()) == (found.differences, found.notes)

    def test_a_value_is_told_with_key_index_and_both_values(self) -> None:
        """And with the distance, where the bits differ too."""
        digits = field_of("BITS|step=0|", "hidden")
        first = digits[1:17]
        bits = with_field("BITS|step=0|", "hidden", digits.replace(first, f"{int(first, 16) + 3:016x}", 1))
        values = field_of("STAGE|index=3", "values")
        printed = with_field("STAGE|index=3", "values", "[0.5" + values[values.index(",") - 5 :], bits)
        found = differences_between(golden_bytes(), printed, NAMES).differences
        assert [(Problem.VALUE, "STAGE index=3", "values", 0, 3), (Problem.VALUE, "BITS step=0", "hidden", 0, 3)] == [
            (one.problem, one.record, one.field, one.index, one.ulp) for one in found
        ]
        assert values[1:].partition(",")[0] == found[0].expected

    def test_missing_extra_and_reordered_records_are_told_apart(self) -> None:
        """By key, whatever the line."""
        found = differences_between(golden_bytes(), without_bits(), NAMES).differences
        assert {Problem.MISSING} == {one.problem for one in found}
        assert 16 == len(found)
        back = differences_between(without_bits(), golden_bytes(), NAMES).differences
        assert {Problem.EXTRA} == {one.problem for one in back}

    def test_a_wrong_digest_is_a_remark(self) -> None:
        """A damaged trace can still be compared with a good one."""
        found = differences_between(golden_bytes(), golden_bytes().replace(b"lr=0.01", b"lr=0.02"), NAMES)
        assert ["CONFIG"] == [one.record for one in found.differences]
        (note,) = found.notes
        assert note.startswith("right: line 32, END, field digest: sha256:")

    def test_a_bare_body_is_compared_with_a_body(self) -> None:
        """The published format has no envelope; a remark says that bodies are compared."""
        found = differences_between(body(), golden_bytes(), NAMES)
        assert ((), ("one of the two is a bare body, so only bodies are compared",)) == (found.differences, found.notes)
        both = differences_between(body(), body(with_field("CONFIG", "lr", "0.020000")), NAMES)
        assert (["CONFIG"], ()) == ([one.record for one in both.differences], both.notes)

    @pytest.mark.parametrize("data", [b"", b"{}\n", b"\xff\n", golden_bytes()[:3000]])
    def test_what_is_no_trace_is_named(self, data: bytes) -> None:
        """The name of the file that is at fault."""
        with refuses(TraceError, "envelope-fault") as caught:
            differences_between(golden_bytes(), data, NAMES)
        assert "right" == caught.value.fields["path"]

    def test_traces_of_different_suites_are_not_comparable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing in them means the same."""
        real = verification._read

        class Other:
            suite = "cai.other"

        def read(data: bytes, name: str, notes: list[str]) -> object:
            trace, grammar = real(data, name, notes)
            return trace, grammar if name == "left" else Other()

        monkeypatch.setattr(verification, "_read", read)
        with refuses(TraceError, "different-suites", match=r"of different suites: course\.ngram and cai\.other$"):
            differences_between(golden_bytes(), golden_bytes(), NAMES)


class TestReview:
    """What accepting a candidate would change."""

    @pytest.fixture
    def copied(self, store: GoldenStore) -> GoldenStore:
        """A store of the test's own with the accepted golden."""
        golden = STORE.read(SUITE.identifier)
        store.accept_all([candidate_of(golden.trace)], reason="copied")
        return store

    def test_nothing_changes_nothing(self, copied: GoldenStore) -> None:
        """No line."""
        assert [] == review_lines(copied, candidate_of(golden_bytes()))

    def test_a_first_golden_is_new(self, store: GoldenStore) -> None:
        """Its files with their sizes, and no comparison."""
        lines = review_lines(store, candidate_of(golden_bytes()))
        assert f"course.ngram: trace.txt: new, {len(golden_bytes())} bytes" == lines[0]
        assert 3 == len(lines)

    def test_a_change_is_told_by_file_and_by_record(self, copied: GoldenStore) -> None:
        """Sizes, then the differences."""
        changed_trace = with_field("CONFIG", "lr", "0.020000")
        size = len(golden_bytes())
        assert [
            f"course.ngram: trace.txt: {size} bytes become {size}",
            "course.ngram: CONFIG, field lr: value, expected 0.010000, found 0.020000",
        ] == review_lines(copied, candidate_of(changed_trace))

    def test_a_golden_of_an_older_grammar_can_be_reviewed(self, store: GoldenStore) -> None:
        """The remedy for a grammar that changed is to accept, so the review must not stop there."""
        old = sealed(golden_bytes().replace(b"merges=8|", b"", 1))
        store.accept_all([candidate_of(old)], reason="older grammar")
        lines = review_lines(store, candidate_of(golden_bytes()))
        assert 2 == len(lines)
        assert lines[1].startswith("course.ngram: the accepted trace cannot be compared: Golden course.ngram/trace.txt")
