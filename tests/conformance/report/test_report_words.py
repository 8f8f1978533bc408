from __future__ import annotations

import pytest

from cai_conformance.report.words import by_suite, counted, counts_sentence, exit_meaning, local_id, sentence
from cai_conformance.verdicts import Level, Outcome, Report, Verdict
from support_reports import BLOCKED, ERRORED, FAIL, NEAR_TIE, PASS, SKIPPED, XFAIL, XPASS, report


@pytest.mark.parametrize(
    ("told", "code", "expected"),
    [
        (report(PASS, NEAR_TIE, SKIPPED), 0, "conforms"),
        (report(PASS, XFAIL), 0, "conforms, apart from the expected failures"),
        (report(PASS, FAIL, FAIL), 1, "does not conform (2 failed)"),
        (report(FAIL, XPASS, BLOCKED), 1, "does not conform (1 failed, 1 passed unexpectedly, 1 blocked)"),
        (report(PASS, SKIPPED, required=Level.I3), 1, "does not conform (1 skipped but required by I3)"),
        (
            report(FAIL, ERRORED),
            2,
            "not judged to the end (in 1 check the backend crashed, hung or broke the protocol)",
        ),
        (report(), 2, "nothing was judged"),
        (report(SKIPPED), 2, "nothing was judged"),
    ],
)
def test_each_exit_code_is_explained(told: Report, code: int, expected: str) -> None:
    """The words beside the exit code say what it is made of."""
    assert (code, expected) == (told.exit_code(), exit_meaning(told))


def test_counts_leave_out_what_did_not_occur() -> None:
    """Outcomes without a verdict are not named, except passes."""
    assert "2 checks: 0 pass, 1 skipped, 1 fail" == counts_sentence(report(FAIL, SKIPPED))


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (PASS, "24 merges agree"),
        (XFAIL, "expected to fail: sums in float32 https://example.org/issues/7"),
        (XPASS, "passes, but is expected to fail: restarts positions"),
        (SKIPPED, "chunked calls are not offered (required by I3)"),
    ],
)
def test_one_line_says_what_weighs_most(verdict: Verdict, expected: str) -> None:
    """An expectation or a requirement goes before or after the message."""
    assert expected == sentence(report(verdict, required=Level.I3), verdict)


def test_an_id_is_shortened_only_at_its_border() -> None:
    """The local id is what follows `::`, and an id without a border stays whole."""
    stray = Verdict("stray", Level.I0, Outcome.PASS, "")
    assert ["fwd.oracle[hidden]", "stray"] == [local_id(FAIL), local_id(stray)]


def test_suites_keep_the_order_of_the_report() -> None:
    """Verdicts of one suite stand together, wherever they were found."""
    assert {"cai.kv-cache": (XPASS, SKIPPED), "course.ngram": (PASS,)} == by_suite(report(XPASS, PASS, SKIPPED))


def test_nouns_agree_with_their_number() -> None:
    """One takes the singular, all else the plural."""
    assert ["0 checks", "1 check", "2 passes"] == [
        counted(0, "check"),
        counted(1, "check"),
        counted(2, "pass", "passes"),
    ]
