"""Judging a long trace, of which no records are kept: the same verdicts as of a short one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from cai_conformance.backends import trace_file
from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.checks.contradictions import (
    LARGE,
    SMALL,
    IntegerColumn,
    finding_of,
    fitting,
    places_in,
    shown_numbers,
)
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.runner import run_suites
from cai_conformance.run.verify import verification_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Outcome, Verdict
from support_decode_traces import Change, both, everywhere, field, golden_of, item, without
from support_traces import sealed

STORE = GoldenStore(locate())


def verdicts(data: bytes) -> list[tuple[str, Outcome, str, tuple[object, ...]]]:
    """Return what is judged of a file, without the time that it took."""

    def told(verdict: Verdict) -> tuple[str, Outcome, str, tuple[object, ...]]:
        return verdict.check, verdict.outcome, verdict.message, verdict.differences

    found = verification_of(TraceFileBackend("file", data), STORE)
    return [told(verdict) for verdict in run_suites([found.run], found.backend, lambda _: True)]


CHANGES: list[tuple[str, Change]] = [
    ("cai.speculative", lambda data: data),
    ("cai.speculative", field("DRAFT|arm=draft|prompt=1|pass=1", "committed", "9")),
    ("cai.speculative", field("DRAFT|arm=self-draft|prompt=1|pass=1", "accepted", "0")),
    ("cai.speculative", everywhere("DRAFT", "proposed", "18446744073709551615")),
    ("cai.speculative", field("DRAFT|arm=scripted|prompt=0", "arm", "nobody")),
    ("cai.speculative", both(field("DECODE|arm=cached|prompt=1", "stop", "eos"), field("CONFIG", "chunk", "0"))),
    ("cai.multi-token", field("DRAFT|arm=mtp-cached|prompt=2|pass=3", "accepted", "0")),
    ("cai.multi-token", without("DRAFT|arm=mtp-cached|prompt=2|pass=3")),
    ("cai.kv-cache", everywhere("CACHE", "slack", "1")),
    ("cai.kv-cache", field("CACHE|layer=1", "layer", "7")),
    ("cai.kv-cache", without("CACHE|layer=1")),
    ("cai.kv-cache", item("DECODE|arm=full|prompt=1", "ids", 3, "9999")),
    ("cai.kv-cache", field("GENERATE|arm=full|prompt=1", "ids", "[1]")),
    ("cai.kv-cache", both(without("DECODE|arm=full|prompt=1"), everywhere("STAGE", "norm", "nan"))),
    ("cai.kv-cache", item("STAGE|index=2", "at", 0, "-1")),
    ("course.decoder", field("RESULT", "selected_step", "0")),
    ("course.decoder", both(everywhere("LOSS", "clipped", "1"), everywhere("LOSS", "rate", "0.500000"))),
    ("course.ngram", everywhere("BITS", "train", "7ff0000000000000")),
    ("course.ngram", without("LOSS|step=15")),
    ("course.ngram", without("BITS|step=3")),
]


@pytest.mark.parametrize("case", range(len(CHANGES)))
def test_verdicts_are_the_same(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcome, message and differences of every check, by turns with a golden and without one."""
    suite, change = CHANGES[case]
    profile = ("golden", "foreign")[case % 2]
    data = sealed(change(golden_of(suite)).replace(b"profile=golden", f"profile={profile}".encode(), 1))
    expected = verdicts(data)
    monkeypatch.setattr(trace_file, "parse", partial(parse, short=-1))
    assert expected == verdicts(data)


class TestColumns:
    """Numbers of any size."""

    @pytest.mark.parametrize("largest", [5, SMALL - 1, SMALL, LARGE - 1, LARGE, -LARGE, 2**64 - 1, -(2**63)])
    def test_numbers_come_back_as_they_were(self, largest: int) -> None:
        """Whatever came before and comes behind."""
        column = IntegerColumn(5)
        for numbers in ([1, 2], [], [largest, 3], [4]):
            column.extend(numbers)
        assert [1, 2, largest, 3, 4] == column.values.tolist()

    @pytest.mark.parametrize("number", [0, 7, 2**40, 2**64 - 1, -(2**63)])
    @pytest.mark.parametrize("largest", [5, LARGE - 1, LARGE])
    def test_a_number_of_any_size_compares_with_a_column(self, number: int, largest: int) -> None:
        """As it does with each number."""
        column = IntegerColumn(4)
        column.extend([-3, 0, 7, largest])
        values = column.values
        assert [value < number for value in (-3, 0, 7, largest)] == (values < fitting(number, values)).tolist()

    def test_places_are_found_by_value(self) -> None:
        """And what is not there has none."""
        column = IntegerColumn(3)
        column.extend([30, 10, 20])
        wanted = np.array([10, 31, 30, 20, 39])
        assert [1, -1, 0, 2, -1] == places_in(column.values, wanted).tolist()
        assert [-1] == places_in(column.values[:0], column.values[:1]).tolist()


class TestProblems:
    """Very many contradictions."""

    def test_the_first_is_told_and_the_rest_counted(self) -> None:
        """Without making a sentence of each."""

        def unasked() -> str:
            raise AssertionError("nobody asked for this sentence")

        assert "first" == finding_of(["first"], "").message
        assert "first (and 2 more)" == finding_of([lambda: "first", unasked, unasked], "").message
        assert (Outcome.PASS, "met") == (finding_of([], "met").outcome, finding_of([], "met").message)

    def test_long_lists_of_numbers_are_cut(self) -> None:
        """The length is told."""
        assert "[0, 1, 2]" == shown_numbers([0, 1, 2])
        assert shown_numbers(list(range(5000))).endswith("98, 99, … and 4900 more]")
