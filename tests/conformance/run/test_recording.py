"""Recording: a candidate is the reference's trace, and becomes a golden only if it passes every check on itself."""

from __future__ import annotations

import pytest

from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run import record as recording
from cai_conformance.run.record import propose_checked
from cai_conformance.verdicts import Level, Outcome, Verdict
from support_refusals import refuses
from support_traces import SUITE, question


@pytest.mark.exhaustive
def test_a_checked_candidate_is_what_was_accepted() -> None:
    """Recording again gives the golden: files, versions, command and count."""
    candidate = propose_checked(SUITE)
    golden = GoldenStore(locate()).read(SUITE.identifier)
    assert golden.files == candidate.files
    assert golden.entry == candidate.entry_over(golden.entry)
    assert "cai-conform trace course.ngram" == candidate.command


def test_a_candidate_that_fails_a_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that contradicts itself never becomes a golden; skipped checks do not matter."""
    verdicts = [
        Verdict("course.ngram::published.text", Level.T3, Outcome.SKIPPED, "not here"),
        Verdict("course.ngram::run.replay", Level.T3, Outcome.FAIL, "line 3 changed"),
    ]
    golden = GoldenStore(locate()).read(SUITE.identifier)
    candidate = Candidate(SUITE.identifier, golden.files, SUITE.version, SUITE.arithmetic, "none", 1)
    monkeypatch.setattr(recording, "_recorded", lambda _: (candidate, question().request))
    monkeypatch.setattr(recording, "run_suites", lambda *_: iter(verdicts))
    with refuses(GoldenError, "candidate-refused") as caught:
        propose_checked(SUITE)
    expected = "the new trace of course.ngram cannot become a golden: course.ngram::run.replay fail: line 3 changed"
    assert expected == str(caught.value)
