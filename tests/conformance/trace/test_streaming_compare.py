"""Comparing traces with very many differences: the first are told, the rest counted, in memory and in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cai_conformance.trace.compare import KEPT, compare
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.records import Trace
from cai_conformance.trace.source import Source
from cai_conformance.trace.streaming import parse_source
from cai_conformance.verdicts import Problem

Seal = Callable[[Sequence[str]], str]
Read = Callable[[Sequence[str]], Trace]

MORE = KEPT + 7


@pytest.fixture(params=[-1, 1 << 30], ids=["in a file", "in memory"])
def read(request: pytest.FixtureRequest, seal: Seal) -> Read:
    """Read a trace of some lines."""
    return lambda lines: parse_source(Source.of_bytes(seal(lines).encode()), grammar_of, in_memory=request.param)


def samples(count: int, value: int = 0) -> list[str]:
    """Lines of so many samples."""
    return [f"SAMPLE|case=more-{number}|draw=0|ids=[{value}]" for number in range(count)]


def test_extra_and_missing_records_are_counted_beyond_a_number(edges_lines: tuple[str, ...], read: Read) -> None:
    """The first by their keys in file order, the rest together."""
    few, many = read(edges_lines), read([*edges_lines, *samples(MORE)])
    for problem, left, right in ((Problem.EXTRA, few, many), (Problem.MISSING, many, few)):
        found = compare(left, right, COURSE_NGRAM)
        assert KEPT + 1 == len(found)
        assert f"SAMPLE case=more-0 draw=0: {problem}" == str(found[0])
        assert f"SAMPLE: {problem} (… and 7 more)" == str(found[-1])


def test_just_as_many_are_all_told(edges_lines: tuple[str, ...], read: Read) -> None:
    """There is nothing to count."""
    found = compare(read(edges_lines), read([*edges_lines, *samples(KEPT)]), COURSE_NGRAM)
    assert KEPT == len(found)
    assert f"SAMPLE case=more-{KEPT - 1} draw=0: extra" == str(found[-1])


def test_other_values_are_counted_beyond_a_number(edges_lines: tuple[str, ...], read: Read) -> None:
    """As other records are."""
    one, other = (read([*edges_lines, *samples(MORE, value)]) for value in (1, 2))
    found = compare(one, other, COURSE_NGRAM)
    assert KEPT + 1 == len(found)
    assert "SAMPLE case=more-0 draw=0, field ids[0]: value, expected 1, found 2" == str(found[0])
    assert "SAMPLE: value, expected …, found … and 7 more" == str(found[-1])


def test_moved_records_are_counted_beyond_a_number(edges_lines: tuple[str, ...], read: Read) -> None:
    """In the order of the second trace, with what they stand behind."""
    lines = samples(2 * MORE)
    found = compare(read([*edges_lines, *lines]), read([*edges_lines, *lines[MORE:], *lines[:MORE]]), COURSE_NGRAM)
    assert {Problem.REORDERED} == {difference.problem for difference in found}
    assert KEPT + 1 == len(found)
    assert "SAMPLE: reordered (… and 7 more)" == str(found[-1])


def test_traces_in_a_file_and_in_memory_compare_alike(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """With bits that stand elsewhere, and whichever of the two lies in a file."""
    changed = [line.replace("train=5.250000", "train=5.260000").replace("4015", "4016") for line in golden_lines[:-1]]
    one, other = (seal(lines).encode() for lines in (golden_lines, changed))
    found = {
        compare(
            parse_source(Source.of_bytes(one), grammar_of, in_memory=mine),
            parse_source(Source.of_bytes(other), grammar_of, in_memory=theirs),
            COURSE_NGRAM,
        )
        for mine in (-1, 1 << 30)
        for theirs in (-1, 1 << 30)
    }
    assert 1 == len(found)
    (differences,) = found
    assert [("BITS step=1", ""), ("LOSS step=1", "train")] == [(one.record, one.field) for one in differences]
