"""A long trace, of which no records are kept, against a short one: the same records, look-ups and differences."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.trace import errors, records
from cai_conformance.trace.compare import KEPT, compare
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import parse, parse_body
from cai_conformance.trace.records import Trace
from cai_conformance.verdicts import Problem
from support_refusals import refuses

Seal = Callable[[Sequence[str]], str]
Read = Callable[[Sequence[str]], Trace]

SUITES = ("course.ngram", "cai.speculative", "course.decoder")
MORE = KEPT + 7


def long(data: bytes | str) -> Trace:
    """Read a trace as a long one, however short it is."""
    return parse(data, grammar_of, short=-1)


@pytest.fixture(params=[-1, 1 << 30], ids=["long", "short"])
def read(request: pytest.FixtureRequest, seal: Seal) -> Read:
    """Read a trace of some lines."""
    return lambda lines: parse(seal(lines), grammar_of, short=request.param)


def samples(count: int, value: int = 0) -> list[str]:
    """Lines of so many samples."""
    return [f"SAMPLE|case=more-{number}|draw=0|ids=[{value}]" for number in range(count)]


@pytest.mark.parametrize("suite", SUITES)
def test_records_and_look_ups_are_the_same(suite: str) -> None:
    """By place, from the end, in a slice; by kind, by key, by some fields, and row by row."""
    data = GoldenStore(locate()).read(suite).trace
    short, found = parse(data, grammar_of), long(data)
    assert isinstance(short.records, tuple)
    assert not isinstance(found.records, tuple)
    assert short.records == tuple(found.records)
    assert short.records[::-7] == tuple(found.records[::-7])
    assert short.records[-1] == found.records[-1]
    with pytest.raises(IndexError):
        _ = found.records[len(short.records)]
    assert short.envelope == found.envelope
    assert short.body == tuple(found.body)
    assert short.inner == tuple(found.inner)
    assert short.places == found.places
    for kind in short.places:
        assert short.all(kind) == tuple(found.all(kind))
        names = [name for name, _ in short.all(kind)[-1].fields]
        for some in (names, names[::-1], [*names, "colour"]):
            assert list(short.rows(kind, *some)) == list(found.rows(kind, *some))
            assert list(short.rows(kind, *some)) == [row for batch in found.batches(kind, *some) for row in batch]
    for place, record in enumerate(short.records):
        assert place == found.placed(record.key)
        some_fields = dict(record.fields[:2])
        assert short.find(record.kind, **some_fields) == found.find(record.kind, **some_fields)
    for trace in (short, found, pickle.loads(pickle.dumps(found))):
        assert trace.find("LOSS", step=-1) is None
        assert trace.placed(("LOSS", "step=-1")) is None
        assert not trace.all("SAMPLE")
        assert not list(trace.batches("SAMPLE", "case"))


def test_a_long_body_is_the_same(golden_lines: tuple[str, ...]) -> None:
    """Without TRACE and END."""
    text = "".join(line + "\n" for line in golden_lines[1:])
    found = parse_body(text, COURSE_NGRAM, "golden", short=-1)
    assert parse_body(text, COURSE_NGRAM, "golden").records == tuple(found.records)
    assert len(golden_lines) - 1 == len(found.inner)


def test_a_wrong_digest_carries_the_long_trace(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """So that a caller can find out what differs."""
    with pytest.raises(errors.DigestMismatch) as caught:
        long(seal(golden_lines).replace("merges=8", "merges=9"))
    assert "9" == caught.value.trace.all("CONFIG")[0].get("merges")


def test_a_record_takes_some_hundred_bytes(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """20 000 records of 50 bytes; kept as records they would take 40 MB."""
    data = seal([*edges_lines[:2], *samples(20_000)])
    tracemalloc.start()
    try:
        trace = long(data)
        assert trace.find("SAMPLE", case="more-19999") is not None
        assert 20_000 == sum(1 for _ in trace.rows("SAMPLE", "case", "draw"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


def test_a_file_is_not_held(tmp_path: Path, edges_lines: tuple[str, ...], seal: Seal) -> None:
    """Of 6 MB in long lines, what is kept while the file is read and when records are looked up is a small part."""
    path = tmp_path / "trace.txt"
    path.write_text(seal([*edges_lines[:2], *(line[:-1] + ", 1" * 1000 + "]" for line in samples(2000))]))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            trace = parse(file, grammar_of)
            assert (0, *[1] * 1000) == tuple(trace.records[-2].integers("ids"))
            assert 2000 == sum(1 for _ in trace.rows("SAMPLE", "case", "ids"))
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 1.5


@pytest.mark.parametrize(("right", "wrong"), [(b"|", b"\x07"), (b"draw=0", b"draw=0 \n"), (b"SAMPLE", b"\xff")])
def test_a_damaged_file_is_refused_as_its_bytes_are(
    tmp_path: Path, edges_lines: tuple[str, ...], seal: Seal, right: bytes, wrong: bytes
) -> None:
    """With the same line, record and field, also where the damage stands far behind."""
    before, found, after = seal([*edges_lines[:2], *samples(40_000)]).encode().rpartition(right)
    path = tmp_path / "trace.txt"
    path.write_bytes(before + found.replace(right, wrong) + after)
    with pytest.raises(TraceFault) as of_bytes:
        parse(path.read_bytes(), grammar_of)
    with path.open("rb") as file, pytest.raises(TraceFault) as of_file:
        parse(file, grammar_of)
    assert str(of_bytes.value) == str(of_file.value)


def test_equal_hashes_are_no_equal_keys(
    edges_lines: tuple[str, ...], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all keys have one hash, the keys themselves are compared."""
    monkeypatch.setattr(records, "hash", lambda _: 7, raising=False)
    trace = read([*edges_lines[:2], *samples(20)])
    assert trace.records[9] == trace.find("SAMPLE", case="more-7")
    assert trace.find("SAMPLE", case="more-20") is None
    with refuses(
        TraceFault, "duplicate-record", match=r"^line 6, SAMPLE case=decode\.space draw=1: .* line 4 already$"
    ):
        read([*edges_lines, edges_lines[3]])


class TestManyDifferences:
    """The first are told, the rest counted."""

    def test_extra_and_missing_records(self, edges_lines: tuple[str, ...], read: Read) -> None:
        """By their keys in file order."""
        few, many = read(edges_lines), read([*edges_lines, *samples(MORE)])
        for problem, left, right in ((Problem.EXTRA, few, many), (Problem.MISSING, many, few)):
            found = compare(left, right, COURSE_NGRAM)
            assert KEPT + 1 == len(found)
            assert f"SAMPLE case=more-0 draw=0: {problem}" == str(found[0])
            assert f"SAMPLE: {problem} (… and 7 more)" == str(found[-1])

    def test_just_as_many_are_all_told(self, edges_lines: tuple[str, ...], read: Read) -> None:
        """There is nothing to count."""
        found = compare(read(edges_lines), read([*edges_lines, *samples(KEPT)]), COURSE_NGRAM)
        assert KEPT == len(found)
        assert f"SAMPLE case=more-{KEPT - 1} draw=0: extra" == str(found[-1])

    def test_other_values(self, edges_lines: tuple[str, ...], read: Read) -> None:
        """As other records are."""
        one, other = (read([*edges_lines, *samples(MORE, value)]) for value in (1, 2))
        found = compare(one, other, COURSE_NGRAM)
        assert KEPT + 1 == len(found)
        assert "SAMPLE case=more-0 draw=0, field ids[0]: value, expected 1, found 2" == str(found[0])
        assert "SAMPLE: value, expected …, found … and 7 more" == str(found[-1])

    def test_moved_records(self, edges_lines: tuple[str, ...], read: Read) -> None:
        """In the order of the second trace, with what they stand behind."""
        lines = samples(2 * MORE)
        moved = [*edges_lines, *lines[MORE:], *lines[:MORE]]
        found = compare(read([*edges_lines, *lines]), read(moved), COURSE_NGRAM)
        assert {Problem.REORDERED} == {difference.problem for difference in found}
        assert KEPT + 1 == len(found)
        assert "SAMPLE: reordered (… and 7 more)" == str(found[-1])


def test_long_and_short_traces_compare_alike(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """With bits that stand elsewhere, and whichever of the two is long."""
    changed = [line.replace("train=5.250000", "train=5.260000").replace("4015", "4016") for line in golden_lines[:-1]]
    found = {
        compare(
            parse(seal(golden_lines), grammar_of, short=mine),
            parse(seal(changed), grammar_of, short=theirs),
            COURSE_NGRAM,
        )
        for mine in (-1, 1 << 30)
        for theirs in (-1, 1 << 30)
    }
    (differences,) = found
    assert [("BITS step=1", ""), ("LOSS step=1", "train")] == [(one.record, one.field) for one in differences]
