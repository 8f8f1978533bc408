"""The first judges: is it a trace at all, and does it follow the same conventions?"""

from __future__ import annotations

from typing import Final

from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding, counted
from cai_conformance.judges.witness import Witness
from cai_conformance.trace.compare import compare
from cai_conformance.trace.errors import DigestMismatch, TraceFault
from cai_conformance.trace.formatting import escape
from cai_conformance.trace.grammars.common import UNSTATED
from cai_conformance.trace.records import Trace, shortened
from cai_conformance.trace.schema import Grammar
from cai_conformance.verdicts import Difference, Problem

READ: Final = Witness("record between TRACE and END", "records between TRACE and END")
STATED: Final = Witness("stated convention", "stated conventions")


def judge_grammar(evidence: Evidence) -> tuple[Finding, ...]:
    """Read the main trace: grammar, envelope, digest, and whether it answers what was asked."""
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


def first_difference(golden: Trace | None, trace: Trace, grammar: Grammar) -> str:
    """Return which record a wrong digest is about, where a golden can tell."""
    if golden is None:
        return ""
    differences = compare(golden, trace, grammar)
    return f"; first difference from the golden: {differences[0]}" if differences else ""


def judge_conventions(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the CONVENTION record with the suite's, field by field; what a backend does not state is left out."""
    ours, theirs = evidence.question.conventions, evidence.main.all("CONVENTION")[0]
    stated = {name for name, _ in ours.fields if theirs.get(name) != UNSTATED}
    differences = tuple(
        Difference(Problem.VALUE, "CONVENTION", name, None, value, theirs.get(name))
        for name, value in ours.fields
        if name in stated and theirs.get(name) != value
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
