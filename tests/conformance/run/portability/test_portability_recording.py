"""Recording for the table: the reference's own traces with bits in every arithmetic, and the shipped classes."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.portability.classes import BitClass, RecordClass, classify
from cai_conformance.run.portability.matrix import request_of
from cai_conformance.run.portability.processes import ARITHMETICS, PortabilityRun, examine, record
from cai_conformance.run.portability.table import shipped
from cai_conformance.run.portability.worker import record_exactly
from cai_conformance.suites import find_suite
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Record, Trace
from support_traces import SUITE, golden_bytes, without_bits

SIMD = "NumPy without AVX2 and AVX-512"


def plain(trace: Trace) -> list[Record]:
    """Return the records of a trace without what only bits say: BITS, bits of stages, digests of logits, and END."""
    kept = [record for record in trace.records if record.kind not in ("BITS", "END")]
    return [
        replace(record, fields=tuple(field for field in record.fields if field[0] not in ("bits", "logits")))
        if record.kind in ("STAGE", "DECODE")
        else record
        for record in kept
    ]


class TestRecordings:
    """What a worker answers."""

    def test_in_strict_it_is_the_golden(self) -> None:
        """Byte by byte."""
        assert golden_bytes() == record_exactly(request_of(SUITE, GoldenStore(locate()), "strict"), 2)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("name", ["course.ngram", "cai.diagonal-ssm"])
    def test_in_fast_bits_are_all_that_is_added(self, name: str) -> None:
        """Without them it is what the reference prints, the words of its proof included."""
        request = request_of(find_suite(name), GoldenStore(locate()), "fast")
        printed, exact = ReferenceBackend().trace(request), record_exactly(request, 1)
        assert printed != exact
        assert plain(parse(printed, grammar_of)) == plain(parse(exact, grammar_of))
        if name == SUITE.identifier:
            assert printed == without_bits(exact)


@pytest.mark.exhaustive
def test_the_shipped_classes_hold_on_this_machine() -> None:
    """The n-gram, as it is and without AVX2: no record moves further than the table says, where it knows the setting.

    On a machine whose settings were not recorded, only tokens and strict arithmetic are held.
    """
    store = GoldenStore(locate())
    table = shipped(store)
    assert table is not None
    runs = {run.setting: run for run in examine(sys.executable).runs if run.setting in ("no setting", SIMD)}
    known: set[object] = {run.facts for run in table.recorded}
    requests = [request_of(SUITE, store, name) for name in ARITHMETICS]
    first, *others = [record(sys.executable, run, requests) for run in runs.values() if run.counts]
    for place, name in enumerate(ARITHMETICS):
        shipped_classes = table.suites[SUITE.identifier].arithmetics[name].moved
        traces = {str(number): parse(other[place], grammar_of) for number, other in enumerate(others)}
        found = classify(parse(first[place], grammar_of), traces, SUITE.grammar)
        for label, each in found.items():
            allowed = shipped_classes.get(label, RecordClass())
            assert each.standing is not BitClass.UNSTABLE, (name, label)
            if name == "strict/1" or all(is_known(run, known) for run in runs.values()):
                assert each.rank <= allowed.rank, (name, label)
    assert golden_bytes() == first[0]


def is_known(run: PortabilityRun, known: set[object]) -> bool:
    """Tell whether the table was recorded under what a run computes with."""
    return not run.counts or run.facts in known
