"""Reading a trace that stays in its file against reading it whole: the same records, faults and look-ups."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.errors import InputUnreadable
from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.trace import errors, source, stored
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.lines import lines_of
from cai_conformance.trace.parser import parse, parse_body
from cai_conformance.trace.records import Record, Trace
from cai_conformance.trace.source import Source, open_source
from cai_conformance.trace.streaming import parse_body_source, parse_source
from cai_conformance.trace.survey import survey

Seal = Callable[[Sequence[str]], str]

SUITES = ("course.ngram", "cai.speculative", "course.decoder")


def golden(suite: str) -> bytes:
    """Return the accepted trace of a suite."""
    return GoldenStore(locate()).read(suite).trace


def streamed(data: bytes) -> Trace:
    """Read a trace from where it lies, however small it is."""
    return parse_source(Source.of_bytes(data), grammar_of, in_memory=-1)


def whole(data: bytes) -> Trace:
    """Read a trace at once."""
    return parse(data, grammar_of)


def body_of(data: bytes) -> Sequence[Record]:
    """Read a body at once."""
    return parse_body(data, COURSE_NGRAM, "golden").records


def streamed_body_of(data: bytes) -> Sequence[Record]:
    """Read a body from where it lies."""
    return tuple(parse_body_source(Source.of_bytes(data), COURSE_NGRAM, "golden", in_memory=-1).records)


def outcome(read: Callable[[bytes], object], data: bytes) -> object:
    """Return what a reader returns, or the class and the sentence of its fault."""
    try:
        return read(data)
    except TraceFault as fault:
        return type(fault), str(fault)


@pytest.fixture(params=[64, 1000, 1 << 18])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of less than a line, of some lines, and of a whole trace."""
    size: int = request.param
    monkeypatch.setattr(source, "BLOCK", size)
    monkeypatch.setattr(stored, "BLOCK", size)
    return size


@pytest.mark.usefixtures("block")
class TestGoldens:
    """The accepted traces, of every kind of record."""

    @pytest.mark.parametrize("suite", SUITES)
    def test_records_are_the_same(self, suite: str) -> None:
        """One after the other, by place, from the end, and in a slice."""
        listed, lazy = whole(golden(suite)), streamed(golden(suite))
        assert listed.records == tuple(lazy.records)
        assert listed.records[5:9] == lazy.records[5:9]
        assert listed.records[-1] == lazy.records[-1]
        assert listed.records[::7] == tuple(lazy.records[place] for place in range(0, len(lazy.records), 7))
        assert listed.envelope == lazy.envelope
        with pytest.raises(IndexError):
            _ = lazy.records[len(listed.records)]

    @pytest.mark.parametrize("suite", SUITES)
    def test_look_ups_are_the_same(self, suite: str) -> None:
        """By kind, by key, by some fields, by runs, and row by row."""
        listed, lazy = whole(golden(suite)), streamed(golden(suite))
        assert list(listed.runs()) == list(lazy.runs())
        assert tuple(listed.body) == tuple(lazy.body)
        assert tuple(listed.inner) == tuple(lazy.inner)
        assert listed.keyed() == lazy.keyed()
        for kind, _ in listed.runs():
            assert tuple(listed.all(kind)) == tuple(lazy.all(kind))
            names = [name for name, _ in listed.all(kind)[-1].fields]
            for some in (names, names[:1], names[::-1], [*names, "colour"]):
                assert list(listed.rows(kind, *some)) == list(lazy.rows(kind, *some))
        for place, record in enumerate(listed.records):
            assert place == lazy.placed(record.key)
            assert listed.find(record.kind, **dict(record.fields[:2])) == lazy.find(
                record.kind, **dict(record.fields[:2])
            )
        for trace in (listed, lazy):
            assert trace.find("LOSS", step=-1) is None
            assert trace.find("SAMPLE", case="a") is None
            assert trace.placed(("LOSS", "step=-1")) is None
            assert not trace.all("SAMPLE")
            assert not list(trace.rows("SAMPLE", "case"))

    def test_a_body_is_the_same(self) -> None:
        """Without TRACE and END, with CONVENTION and BITS or not."""
        data = golden("course.ngram")
        body = b"".join(line for line in data.splitlines(keepends=True) if not line.startswith((b"TRACE|", b"END|")))
        for text in (body, b"".join(body.splitlines(keepends=True)[1:13]), body[:-1], data):
            assert outcome(body_of, text) == outcome(streamed_body_of, text)


DAMAGES = [
    # (what is done to a trace of lines, counted from 0, before it is sealed)
    lambda lines: [*lines[:10], lines[9], *lines[10:]],
    lambda lines: [*lines[:10], lines[-1], *lines[10:]],
    lambda lines: [*lines, lines[9]],
    lambda lines: [*lines, "LOSS|step=3|train=0.000000"],
    lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],
    lambda lines: [*lines[:10], lines[10].replace("train=", "trian="), *lines[11:]],
    lambda lines: [*lines[:-1], lines[-1] + "0"],
    lambda lines: [*lines, "OTHER|a=b"],
    lambda lines: lines[:11],
    lambda lines: lines[:2],
    lambda lines: lines[1:],
    lambda lines: [line.replace("profile=golden", "profile=none") for line in lines],
    lambda lines: [line.replace("suite=course.ngram", "suite=none") for line in lines],
    lambda lines: [line.replace("grammar=1", "grammar=2") for line in lines],
    lambda lines: [*lines[:5], "", *lines[5:]],
    lambda lines: [*lines[:5], lines[5] + " ", *lines[6:]],
    lambda lines: [*lines[:5], lines[5] + "\r", *lines[6:]],
    lambda lines: [*lines[:5], "END|records=1", *lines[5:]],
    # The first of two faults is told, and a key that stands twice is one of them.
    lambda lines: [*lines[:11], lines[9], lines[10] + "|zz", *lines[11:]],
    lambda lines: [*lines[:11], lines[10] + "|zz", lines[9], *lines[11:]],
]


@pytest.mark.usefixtures("block")
class TestDamage:
    """Faults have the parser's class and words."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_trace_has_the_same_fault(
        self, golden_lines: tuple[str, ...], seal: Seal, damage: Callable[[list[str]], list[str]]
    ) -> None:
        """Sealed anew, so that nothing but the damage shows."""
        data = seal(damage(list(golden_lines))).encode()
        expected = outcome(whole, data)
        assert isinstance(expected, tuple)
        assert expected == outcome(streamed, data)

    def test_count_and_digest_are_held_against_the_end(self, golden_lines: tuple[str, ...], seal: Seal) -> None:
        """The count comes first; a wrong digest carries the trace."""
        data = seal(golden_lines).encode()
        for changed in (data.replace(b"END|records=15", b"END|records=14"), data.replace(b"merges=8", b"merges=9")):
            assert outcome(whole, changed) == outcome(streamed, changed)
        with pytest.raises(errors.DigestMismatch) as caught:
            streamed(data.replace(b"merges=8", b"merges=9"))
        assert "9" == caught.value.trace.all("CONFIG")[0].get("merges")

    def test_every_cut_is_a_cut(self, edges_lines: tuple[str, ...], seal: Seal) -> None:
        """Within a line, within a character, and before the first line."""
        data = seal(edges_lines).encode()
        for size in range(len(data)):
            assert outcome(whole, data[:size]) == outcome(streamed, data[:size])


PIECES = [
    b"TRACE|a=b",
    b"SAMPLE|case=a|draw=1",
    b"\n",
    b"\n",
    b"\n",
    b" ",
    "а".encode(),
    "«".encode(),
    b"LOSS|step=3|tr",
]
BAD = [b"\xd0", b"\x00", b"\xc2\x85", b"\r", b"\xff", b"\xef\xbb\xbf"]


@given(st.lists(st.sampled_from(PIECES * 3 + BAD), max_size=9), st.sampled_from([1, 2, 3, 7, 64]))
def test_lines_are_found_as_in_a_text_at_hand(pieces: list[bytes], block: int) -> None:
    """Lines, or the fault that comes first, whatever the blocks are."""
    data = b"".join(pieces)

    def lines(data: bytes) -> list[str]:
        starts = survey(Source.of_bytes(data)).tolist()
        return [data[start : end - 1].decode() for start, end in pairwise(starts)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        assert outcome(lines_of, data) == outcome(lines, data)


@pytest.mark.parametrize("size", [100, 101, 5000])
def test_a_line_beyond_the_limit_is_refused_without_being_held(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """With its length, whatever it is; a line of just the limit is read."""
    monkeypatch.setattr(source, "BLOCK", 16)
    data = b"TRACE|a=b\n" + b"x" * size + b"\nEND|a=b\n"
    expected = outcome(lambda data: len(lines_of(data, line_limit=100)), data)
    assert expected == outcome(lambda data: len(survey(Source.of_bytes(data), line_limit=100)) - 1, data)
    assert max(len(block.data) for block in source.blocks(Source.of_bytes(data), line_limit=100)) <= 132


def test_a_file_beyond_the_limit_is_not_read() -> None:
    """Its size is enough."""
    with pytest.raises(errors.TooLarge, match=r"^11 bytes are more than the limit of 10$"):
        survey(Source.of_bytes(b"x" * 11), file_limit=10)


def many(seal: Seal, edges_lines: tuple[str, ...], count: int) -> bytes:
    """Return a trace of so many samples."""
    samples = [f"SAMPLE|case=many.more-{number}|draw=0|ids=[1, 2, 3]" for number in range(count)]
    return seal([*edges_lines[:2], *samples]).encode()


class TestMemory:
    """What is kept of a record is where it begins, and a hash of its key."""

    def test_a_record_takes_some_dozen_bytes(self, edges_lines: tuple[str, ...], seal: Seal, tmp_path: Path) -> None:
        """20 000 records of 50 bytes; in memory they would take 40 MB."""
        path = tmp_path / "trace.txt"
        path.write_bytes(many(seal, edges_lines, 20_000))
        tracemalloc.start()
        try:
            trace = parse_source(open_source(str(path)), grammar_of, in_memory=0)
            assert trace.find("SAMPLE", case="many.more-19999") is not None
            assert 20_000 == sum(1 for _ in trace.rows("SAMPLE", "case", "draw"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8_000_000

    def test_a_record_is_read_when_it_is_asked_for(self, edges_lines: tuple[str, ...], seal: Seal) -> None:
        """Counting kinds reads nothing, one record reads its line."""
        read: list[int] = []

        class Counting(Source):
            def read(self, start: int, end: int) -> bytes:
                read.append(end - start)
                return super().read(start, end)

        data = many(seal, edges_lines, 5000)
        trace = parse_source(Counting.of_bytes(data), grammar_of, in_memory=0)
        read.clear()
        assert 5000 == len(trace.all("SAMPLE"))
        assert [] == read
        assert "many.more-4000" == trace.all("SAMPLE")[4000].get("case")
        assert sum(read) < 100

    def test_equal_hashes_are_no_equal_keys(
        self, edges_lines: tuple[str, ...], seal: Seal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where all keys have one hash, the keys themselves are compared."""
        monkeypatch.setattr("cai_conformance.trace.streaming.hash", lambda _: 7, raising=False)
        monkeypatch.setattr("cai_conformance.trace.streaming.key_hash", lambda _: 7)
        monkeypatch.setattr(stored, "key_hash", lambda _: 7)
        data = many(seal, edges_lines, 20)
        trace = streamed(data)
        assert trace.records[9] == trace.find("SAMPLE", case="many.more-7")
        assert trace.find("SAMPLE", case="many.more-20") is None
        twice = seal([*edges_lines, edges_lines[3]]).encode()
        assert outcome(whole, twice) == outcome(streamed, twice)

    def test_a_file_that_changes_is_told(self, edges_lines: tuple[str, ...], seal: Seal, tmp_path: Path) -> None:
        """Shorter, or with other lines: a sentence, and no record that was never there."""
        path, data = tmp_path / "trace.txt", many(seal, edges_lines, 100)
        for changed in (data[:1000], data.replace(b"ids=", b"idz="), data.replace(b"\n", b"|"), b"\xff" * len(data)):
            path.write_bytes(data)
            trace = parse_source(open_source(str(path)), grammar_of, in_memory=0)
            path.write_bytes(changed)
            for read in (lambda: list(trace.all("SAMPLE")), lambda: list(trace.rows("SAMPLE", "ids"))):  # noqa: B023
                with pytest.raises(InputUnreadable, match="it changed while it was read"):
                    read()
