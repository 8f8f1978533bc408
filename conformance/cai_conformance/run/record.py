"""Recording goldens: from a suite to a candidate for its golden, judged before anybody accepts it.

A candidate is made by the reference in the suite's arithmetic, on the suite's own input. It has to pass every check
against itself, the replay included, so that a trace which contradicts itself never becomes a golden.

Views of a backend's answer: the body of a trace, and the learner's report of the neural n-gram.
"""

from __future__ import annotations

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import Backend, TraceRequest
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.reference.ngram_records import report_text
from cai_conformance.backends.reference.ngram_run import run_experiment
from cai_conformance.checks.evidence import Question
from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.format import format_body
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.instances import named


def propose(suite: Suite) -> Candidate:
    """Record a suite anew and return what would become its golden.

    Raises:
        FixtureError: the experiment stopped.
    """
    return _recorded(suite)[0]


def propose_checked(suite: Suite) -> Candidate:
    """As `propose`, after judging the candidate by all checks, with itself as the golden.

    Raises:
        FixtureError: the experiment stopped.
        GoldenError (candidate-refused): a check failed.
    """
    candidate, request = _recorded(suite)
    trace = parse(candidate.files["trace.txt"], grammar_of)
    question = Question(request, suite.grammar, trace.all("CONVENTION")[0], trace)
    for verdict in run_suites([SuiteRun(suite, question)], ReferenceBackend(), lambda _: True):
        if verdict.outcome not in (Outcome.PASS, Outcome.SKIPPED):
            raise GoldenError(
                "candidate-refused",
                suite=suite.identifier,
                check=verdict.check,
                outcome=verdict.outcome.value,
                problem=verdict.message,
            )
    return candidate


def _recorded(suite: Suite) -> tuple[Candidate, TraceRequest]:
    own, files = suite.default_input(), suite.record_files()
    request = TraceRequest(
        suite.identifier,
        suite.version,
        own.profile,
        suite.arithmetic,
        own.corpus,
        own.splits,
        files.vectors,
        files.weights,
    )
    data = ReferenceBackend().trace(request)
    records = len(parse(data, grammar_of).inner)
    contents = {"trace.txt": data, "vectors.json": files.vectors, suite.weights_file: files.weights, **files.beside}
    command = f"cai-conform trace {suite.identifier}"
    return Candidate(suite.identifier, contents, suite.version, suite.arithmetic, command, records), request


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
    experiment = run_experiment(request.corpus, request.splits, named(request.arithmetic))
    return report_text(experiment).encode("utf-8")
