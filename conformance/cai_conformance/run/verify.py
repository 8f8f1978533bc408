"""Judging what is already written: one trace against its suite, or two traces against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.checks.finding import counted
from cai_conformance.checks.trace import first_difference
from cai_conformance.errors import GoldenError, TraceError
from cai_conformance.fixtures.goldens import review
from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.fixtures.goldens.store import GoldenStore
from cai_conformance.run.questions import Options, accepted_trace, question_for
from cai_conformance.run.runner import SuiteRun
from cai_conformance.suites.registry import SUITES, find_suite
from cai_conformance.trace.compare import compare
from cai_conformance.trace.errors import DigestMismatch, NoTraceLine, TraceFault
from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse, parse_body
from cai_conformance.trace.records import Trace
from cai_conformance.verdicts import Difference, Outcome, Report
from cai_reference.arithmetic.instances import named
from cai_reference.errors import ArithmeticFault


@dataclass(frozen=True)
class Verification:
    """A trace file with the question that it answers."""

    backend: TraceFileBackend
    run: SuiteRun

    def summary(self, report: Report) -> str:
        """Return one line: what holds, or the first thing that does not."""
        request, counts = self.run.question.request, report.counts()
        bad = [verdict for verdict in report.verdicts if verdict.outcome in (Outcome.FAIL, Outcome.ERRORED)]
        name = self.backend.name.removeprefix("trace:")
        if bad:
            rest = len(bad) - 1
            more = f"; {counted(rest, 'more check')} did not pass, see --verbose" if rest else ""
            return f"{name}: {bad[0].outcome.value} {bad[0].check}: {bad[0].message}{more}"
        return (
            f"{name}: {request.suite} {request.suite_version}, profile {request.profile}, {request.arithmetic}: "
            f"{counts[Outcome.PASS]} checks pass, {counts[Outcome.SKIPPED]} skipped"
        )


@dataclass(frozen=True)
class TraceComparison:
    """The differences of two traces, the most telling first, and remarks about the files."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def verification_of(backend: TraceFileBackend, store: GoldenStore) -> Verification:
    """Read a trace file and return what it is to be held against.

    Raises:
        TraceError (envelope-fault): the grammar or the envelope is broken.
        GoldenError: the suite's own files are missing or damaged.
    """
    path = backend.name.removeprefix("trace:")
    try:
        trace = backend.read(grammar_of)
    except DigestMismatch as error:
        raise TraceError(
            "envelope-fault", path=path, problem=f"{error}{_first_difference(error.trace, store)}"
        ) from None
    except TraceFault as error:
        raise TraceError("envelope-fault", path=path, problem=str(error)) from None
    envelope = trace.envelope
    suite = find_suite(envelope.suite)
    try:
        named(envelope.arithmetic)
    except ArithmeticFault as error:
        if error.code != "unknown-arithmetic":
            raise
        raise TraceError("envelope-fault", path=path, problem=f"line 1, TRACE, field arithmetic: {error}") from None
    options = Options(arithmetic=envelope.arithmetic, profile=envelope.profile)
    return Verification(backend, SuiteRun(suite, question_for(suite, store, options)))


def differences_between(left: bytes | BinaryIO, right: bytes | BinaryIO, names: tuple[str, str]) -> TraceComparison:
    """Compare two traces, or bodies of traces, aligned by key.

    Raises:
        TraceError (envelope-fault): one of them is not a trace. A wrong digest alone is a remark, so that a damaged
            trace can be
            compared with a good one.
        TraceError (different-suites): there is nothing to compare.
    """
    notes: list[str] = []
    expected, grammar = _read(left, names[0], notes)
    found, other = _read(right, names[1], notes)
    if grammar.suite != other.suite:
        raise TraceError("different-suites", left=grammar.suite, right=other.suite)
    if _is_body(expected) != _is_body(found):
        expected, found = Trace(expected.body), Trace(found.body)
        notes.append("one of the two is a bare body, so only bodies are compared")
    return TraceComparison(compare(expected, found, grammar), tuple(notes))


def _read(file: bytes | BinaryIO, name: str, notes: list[str]) -> tuple[Trace, Grammar]:
    try:
        trace = parse(file, grammar_of)
    except DigestMismatch as error:
        notes.append(f"{name}: {error}")
        trace = error.trace
    except NoTraceLine as error:
        return _read_body(file, name, error)
    except TraceFault as error:
        raise TraceError("envelope-fault", path=name, problem=str(error)) from None
    return trace, find_suite(trace.envelope.suite).grammar


def _read_body(file: bytes | BinaryIO, name: str, error: NoTraceLine) -> tuple[Trace, Grammar]:
    """Read a text without envelope by the first grammar that it keeps."""
    for suite in SUITES:
        try:
            return parse_body(file, suite.grammar, "golden"), suite.grammar
        except TraceFault:
            continue
    raise TraceError("envelope-fault", path=name, problem=str(error)) from None


def _is_body(trace: Trace) -> bool:
    return trace.records[0].kind != "TRACE"


def _first_difference(trace: Trace, store: GoldenStore) -> str:
    """Return which record a wrong digest is about, where the golden of the trace's suite can tell."""
    suite = find_suite(trace.envelope.suite)
    golden = accepted_trace(store.read(suite.identifier)) if trace.envelope.profile == "golden" else None
    return first_difference(golden, trace, suite.grammar)


def review_lines(store: GoldenStore, candidate: Candidate) -> list[str]:
    """Return what a candidate would change, a line each: files first, then the records of the trace."""
    found = review(store, candidate.suite, candidate.files)
    lines = [
        f"{candidate.suite}: {change.name}: {change.size_before} bytes become {change.size_after}"
        if change.sha256_before is not None
        else f"{candidate.suite}: {change.name}: new, {change.size_after} bytes"
        for change in found.changed
    ]
    if lines and not found.is_new:
        grammar = find_suite(candidate.suite).grammar
        try:
            before = accepted_trace(store.read(candidate.suite))
        except GoldenError as error:
            if error.code != "golden-disagrees":
                raise
            return [*lines, f"{candidate.suite}: the accepted trace cannot be compared: {error}"]
        after = parse(candidate.files["trace.txt"], grammar_of)
        lines += [f"{candidate.suite}: {difference}" for difference in compare(before, after, grammar)]
    return lines
