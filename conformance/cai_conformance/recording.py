"""Recording goldens: from a suite to a candidate for its golden, judged before anybody accepts it.

A candidate is made by the reference in the suite's arithmetic, on the suite's own input. It has to pass every check
against itself, the replay included, so that a trace which contradicts itself never becomes a golden.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference import ReferenceBackend
from cai_conformance.errors import GoldenError
from cai_conformance.goldens import Candidate
from cai_conformance.judges.evidence import Question
from cai_conformance.runner import SuiteRun, run_suites
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parser import parse
from cai_conformance.verdicts import Outcome


@dataclass(eq=False)
class CandidateRefused(GoldenError):
    """A newly recorded trace fails a check against itself."""

    template = "the new trace of {suite} cannot become a golden: {check} {outcome}: {problem}"
    suite: str
    check: str
    outcome: str
    problem: str


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
        CandidateRefused: a check failed.
    """
    candidate, request = _recorded(suite)
    trace = parse(candidate.files["trace.txt"], grammar_of)
    question = Question(request, suite.grammar, trace.all("CONVENTION")[0], trace)
    for verdict in run_suites([SuiteRun(suite, question)], ReferenceBackend(), lambda _: True):
        if verdict.outcome not in (Outcome.PASS, Outcome.SKIPPED):
            raise CandidateRefused(suite.identifier, verdict.check, verdict.outcome.value, verdict.message)
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
