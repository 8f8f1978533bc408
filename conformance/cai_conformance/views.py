"""Views of a backend's answer: the body of a trace, and the learner's report of the neural n-gram."""

from __future__ import annotations

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import Backend, TraceRequest
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.formatting import format_body
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parser import parse
from cai_reference.arithmetic import named


def body_of(data: bytes) -> bytes:
    """Return a trace without TRACE, CONVENTION, BITS and END.

    Raises:
        TraceFault: the bytes are not a trace.
    """
    return format_body(parse(data, grammar_of).body).encode("utf-8")


def report_of(suite: Suite, backend: Backend, request: TraceRequest) -> bytes:
    """Return the learner's report, which states more than a trace does and so takes an experiment of the reference.

    Raises:
        NotOffered: the backend is another one, or the suite has no report.
        FixtureError: the experiment stopped.
    """
    if backend.name != "reference" or suite.identifier != "course.ngram":
        raise NotOffered(backend.name, f"a report of {suite.identifier}", "the reference has one of course.ngram only")
    from cai_conformance.backends.ngram.experiment import run_experiment
    from cai_conformance.backends.ngram.report import report_text

    experiment = run_experiment(request.corpus, request.splits, named(request.arithmetic))
    return report_text(experiment).encode("utf-8")
