"""Judging what is already written: one trace against its suite, or two traces against each other."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.errors import TraceError
from cai_conformance.goldens import Candidate, GoldenStore, review
from cai_conformance.goldens.errors import GoldenDisagrees
from cai_conformance.judges.finding import counted
from cai_conformance.judges.grammar import first_difference
from cai_conformance.questions import Options, accepted_trace, question_for
from cai_conformance.runner import SuiteRun
from cai_conformance.suites import SUITES, find_suite
from cai_conformance.trace.compare import compare
from cai_conformance.trace.errors import DigestMismatch, NoTraceLine, TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parser import parse
from cai_conformance.trace.records import Trace
from cai_conformance.trace.schema import Grammar
from cai_conformance.trace.source import Source
from cai_conformance.trace.streaming import parse_body_source, parse_source
from cai_conformance.verdicts import Difference, Outcome, Report
from cai_reference.arithmetic import UnknownArithmetic, named


@dataclass(eq=False)
class EnvelopeFault(TraceError):
    """A file is not a trace: the first fault, and which record a wrong digest is about, where a golden can tell."""

    template = "{path}: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class DifferentSuites(TraceError):
    """Two traces answer different suites, so that nothing in them is comparable."""

    template = "the traces are of different suites: {left} and {right}"
    left: str
    right: str


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
class Comparison:
    """The differences of two traces, the most telling first, and remarks about the files."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def verification_of(backend: TraceFileBackend, store: GoldenStore) -> Verification:
    """Read a trace file and return what it is to be held against.

    Raises:
        EnvelopeFault: the grammar or the envelope is broken.
        GoldenError: the suite's own files are missing or damaged.
    """
    path = backend.name.removeprefix("trace:")
    try:
        trace = backend.read(grammar_of)
    except DigestMismatch as error:
        raise EnvelopeFault(path, f"{error}{_first_difference(error.trace, store)}") from None
    except TraceFault as error:
        raise EnvelopeFault(path, str(error)) from None
    envelope = trace.envelope
    suite = find_suite(envelope.suite)
    try:
        named(envelope.arithmetic)
    except UnknownArithmetic as error:
        raise EnvelopeFault(path, f"line 1, TRACE, field arithmetic: {error}") from None
    options = Options(arithmetic=envelope.arithmetic, profile=envelope.profile)
    return Verification(backend, SuiteRun(suite, question_for(suite, store, options)))


def differences_between(left: bytes | Source, right: bytes | Source, names: tuple[str, str]) -> Comparison:
    """Compare two traces, or bodies of traces, aligned by key.

    Raises:
        EnvelopeFault: one of them is not a trace. A wrong digest alone is a remark, so that a damaged trace can be
            compared with a good one.
        DifferentSuites: there is nothing to compare.
    """
    notes: list[str] = []
    expected, grammar = _read(left, names[0], notes)
    found, other = _read(right, names[1], notes)
    if grammar.suite != other.suite:
        raise DifferentSuites(grammar.suite, other.suite)
    if _is_body(expected) != _is_body(found):
        expected, found = Trace(expected.body), Trace(found.body)
        notes.append("one of the two is a bare body, so only bodies are compared")
    return Comparison(compare(expected, found, grammar), tuple(notes))


def _read(data: bytes | Source, name: str, notes: list[str]) -> tuple[Trace, Grammar]:
    source = Source.of_bytes(data, name) if isinstance(data, bytes) else data
    try:
        trace = parse_source(source, grammar_of)
    except DigestMismatch as error:
        notes.append(f"{name}: {error}")
        trace = error.trace
    except NoTraceLine as error:
        return _read_body(source, name, error)
    except TraceFault as error:
        raise EnvelopeFault(name, str(error)) from None
    return trace, find_suite(trace.envelope.suite).grammar


def _read_body(source: Source, name: str, error: NoTraceLine) -> tuple[Trace, Grammar]:
    """Read a text without envelope by the first grammar that it keeps."""
    for suite in SUITES:
        try:
            return parse_body_source(source, suite.grammar, "golden"), suite.grammar
        except TraceFault:
            continue
    raise EnvelopeFault(name, str(error)) from None


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
        except GoldenDisagrees as error:
            return [*lines, f"{candidate.suite}: the accepted trace cannot be compared: {error}"]
        after = parse(candidate.files["trace.txt"], grammar_of)
        lines += [f"{candidate.suite}: {difference}" for difference in compare(before, after, grammar)]
    return lines
