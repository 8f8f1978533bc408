"""Whether it is a trace at all, follows the same conventions, and comes out the same in a second run."""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.checks.check import check
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.witness import Witness
from cai_conformance.trace.compare import compare
from cai_conformance.trace.errors import DigestMismatch, TraceFault
from cai_conformance.trace.format import escape
from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.grammars.common import UNSTATED
from cai_conformance.trace.records import Trace, shortened
from cai_conformance.verdicts import Difference, Level, Problem

READ: Final = Witness("record between TRACE and END", "records between TRACE and END")
STATED: Final = Witness("stated convention", "stated conventions")


@check(
    "trace.format",
    Level.I0,
    "the trace keeps the grammar, its envelope and its digest",
    "Every record, field and value is read by the grammar; END must count the records and digest the bytes. A failure "
    "names line, record and field.",
    requires=(),
    of_edges=True,
    witnesses=(READ,),
    catches="trace.carriage-returns trace.record-lost",
)
def judge_grammar(evidence: Evidence) -> tuple[Finding, ...]:
    """Read the main trace: grammar, envelope, digest, and whether it answers what was asked.

    Answers that come without a trace are held to the same rules, and told by the trace that they would make.
    """
    if evidence.asked_directly:
        return (_judge_answers(evidence),)
    try:
        trace = evidence.main
    except DigestMismatch as error:
        return (
            Finding.failed(
                f"{error}{first_difference(evidence.question.golden, error.trace, evidence.question.grammar)}"
            ),
        )
    except TraceFault as error:
        return (Finding.failed(str(error)),)
    envelope, request = trace.envelope, evidence.question.request
    for name in ("suite", "suite_version", "profile", "arithmetic"):
        stated, wanted = getattr(envelope, name), getattr(request, name)
        if stated != wanted:
            return (Finding.failed(f"TRACE, field {name}: the trace states {stated}, {wanted} was asked for"),)
    records = counted(len(trace.inner), "record")
    if envelope.vectors != evidence.question.vectors.digest:
        return (
            Finding.failed(
                f"TRACE, field vectors: the trace was made against {envelope.vectors}, "
                f"this suite ships {evidence.question.vectors.digest}"
            ),
        )
    text = f"{records}, digest {trace.records[-1].get('digest')[:15]}…"
    return (Finding.passed(text, met=[READ.met(len(trace.inner))]),)


def _judge_answers(evidence: Evidence) -> Finding:
    answers, wanted = evidence.answers, evidence.question.request.arithmetic
    try:
        answers.check()
    except TraceFault as error:
        return Finding.failed(str(error))
    if answers.arithmetic != wanted:
        return Finding.failed(f"TRACE, field arithmetic: the trace states {answers.arithmetic}, {wanted} was asked for")
    # CONVENTION, and one record an answer.
    count = 1 + len(answers.by_case)
    digest = evidence.main_bytes.decode("utf-8").rpartition("digest=")[2]
    return Finding.passed(f"{counted(count, 'record')}, digest {digest[:15]}…", met=[READ.met(count)])


def first_difference(golden: Trace | None, trace: Trace, grammar: Grammar) -> str:
    """Return which record a wrong digest is about, where a golden can tell."""
    if golden is None:
        return ""
    differences = compare(golden, trace, grammar)
    return f"; first difference from the golden: {differences[0]}" if differences else ""


@check(
    "trace.convention",
    Level.I0,
    "the backend states the conventions of the suite",
    "Rotary layout, window, gate, norm, loss: two implementations that follow different conventions differ in every "
    "number. A difference is reported in words, and no number is compared.",
    of_edges=True,
    witnesses=(STATED,),
    catches="trace.other-convention",
)
def judge_conventions(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare what a backend states with the suite's CONVENTION, field by field; what it leaves out is no mistake."""
    ours = evidence.question.conventions
    if evidence.question.request.profile == "edges":
        theirs = evidence.answers.conventions
    else:
        theirs = dict(evidence.main.all("CONVENTION")[0].fields)
    stated = {name for name, _ in ours.fields if theirs[name] != UNSTATED}
    differences = tuple(
        Difference(Problem.VALUE, "CONVENTION", name, None, value, theirs[name])
        for name, value in ours.fields
        if name in stated and theirs[name] != value
    )
    if differences:
        first = differences[0]
        found = shortened(escape(first.found)) or "nothing"
        text = f"CONVENTION, field {first.field}: the backend follows another convention, {found}, not {first.expected}"
        return (Finding.failed(text, differences),)
    if not stated:
        return (Finding.skipped("the backend does not state its conventions"),)
    text = "the stated conventions are the suite's"
    if len(stated) < len(ours.fields):
        text = f"{len(stated)} of {len(ours.fields)} conventions are stated, and are the suite's"
    return (Finding.passed(text, met=[STATED.met(len(stated))]),)


LINES: Final = Witness("line of a second run", "lines of a second run")


@check(
    "run.replay",
    Level.T3,
    "a second run in a fresh process gives the same bytes",
    "Another process, hash seed and thread count. A difference means that more than the seeds decides.",
    needs_replay=True,
    witnesses=(LINES,),
    catches="init.goes-on",
)
def judge_replay(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the main trace with that of a fresh process, another hash seed and another thread count."""
    if isinstance(evidence.backend, TraceFileBackend):
        _ = evidence.replay  # It refuses; its bytes, of which there may be very many, are not needed for that.
    first, second = evidence.main_bytes, evidence.replay
    if first == second:
        text = f"a second run in a fresh process gave the same {len(first)} bytes"
        return (Finding.passed(text, met=[LINES.met(second.count(b"\n"))]),)
    lines = zip(first.split(b"\n"), second.split(b"\n"), strict=False)
    for number, (one, other) in enumerate(lines, start=1):
        if one != other:
            shown = one.decode("utf-8", "replace"), other.decode("utf-8", "replace")
            return (Finding.failed(f"line {number} changed from {_short(shown[0])} to {_short(shown[1])}"),)
    return (Finding.failed(f"the second run gave {len(second)} bytes, the first {len(first)}"),)


def _short(line: str, limit: int = 60) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"
