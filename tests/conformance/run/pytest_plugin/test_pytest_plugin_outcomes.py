"""From verdicts to outcomes of pytest, to its exit status, and to JUnit."""

from __future__ import annotations

import pytest

from support_pytest_runs import Runs, cases_of, properties_of
from support_pytest_suites import DIFFERENCES

pytest_plugins = ["pytester"]

VERDICTS = {
    "trace.format": ("pass", ""),
    "say.pass": ("pass", ""),
    "say.tie": ("near_tie", ""),
    "say.skip": ("skipped", "skipped"),
    "say.fail[early]": ("fail", "failure"),
    "say.fail[late]": ("fail", "failure"),
    "say.blocked": ("blocked", "failure"),
    "say.known": ("xfail", "skipped"),
    "say.better": ("xpass", "failure"),
    "say.error": ("errored", "error"),
}
"""What the checks of the first small suite come to with the expectations of `KNOWN`, and the element in JUnit."""

COUNTS = "2 passed, 1 near tie, 1 expected failure, 1 skipped, 2 failed, 1 unexpected pass, 1 blocked, 1 errored"


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs of pytest on the small suites."""
    return Runs(pytester, monkeypatch)


class TestOutcomes:
    """Every verdict has one outcome, and says why."""

    def test_each_verdict_has_its_outcome_and_its_words(self, runs: Runs) -> None:
        """A failure prints the verdict and its differences, and no line of Python."""
        result = runs.judge("--cai-suite=ngram", "--cai-expect-failures=known.toml", "-rA")
        result.assert_outcomes(passed=3, skipped=1, failed=4, errors=1, xfailed=1)
        assert pytest.ExitCode.TESTS_FAILED == result.ret
        text = result.stdout.str()
        for words in (
            "PASSED cai_conformance::course.ngram::say.pass",
            "two tokens stood 1 ULP apart",
            "SKIPPED [1]",
            ": not offered",
            "FAILED cai_conformance::course.ngram::say.fail[early] - Failed: the losses part",
            "blocked: say.fail did not pass, so there is nothing sound to judge",
            "XFAIL cai_conformance::course.ngram::say.known - ",
            "a known gap https://example.org/7",
            "[XPASS(strict)] passes, but is expected to fail: it was worse once",
            "errored: recorder crashed: it lost its \\x1b[31mweights",
            *(f"  {difference}" for difference in DIFFERENCES[:20]),
            "  and 5 more",
            "try: cai-conform run course.ngram --backend support_pytest_suites:backend "
            "-k 'course.ngram::say.fail[early]' --verbose",
            f"cai-conform: backend recorder: {COUNTS}",
        ):
            assert words in text
        assert str(DIFFERENCES[20]) not in text
        assert "Traceback" not in text
        assert ".py:" not in text.replace("outcomes.py:", "", 1)

    def test_junit_states_versions_levels_and_reasons(self, runs: Runs) -> None:
        """Each test case can be read by itself."""
        runs.judge("--cai-suite=ngram", "--cai-expect-failures=known.toml", "--junitxml=report.xml")
        cases = cases_of(runs.folder / "report.xml")
        assert [f"course.ngram::{name}" for name in VERDICTS] == list(cases)
        for name, (verdict, element) in VERDICTS.items():
            case = cases[f"course.ngram::{name}"]
            properties = properties_of(case)
            assert verdict == properties["verdict"]
            assert [element] * bool(element) == [child.tag for child in case if child.tag != "properties"]
            assert ("recorder", "1", "1", "strict/1") == tuple(
                properties[key] for key in ("backend", "grammar", "protocol", "arithmetic")
            )
            assert properties["vectors"].startswith("sha256:")
        tie = properties_of(cases["course.ngram::say.tie"])
        assert ("I2", "two tokens stood 1 ULP apart") == (tie["level"], tie["reason"])
        known = properties_of(cases["course.ngram::say.known"])
        assert "a known gap https://example.org/7" == known["reason"]

    def test_a_required_level_forbids_skips_up_to_it(self, runs: Runs) -> None:
        """The check at level I2 may be skipped where I1 is required, not where I2 is."""
        allowed = runs.judge("-k", "say.skip or say.pass", "--cai-require=I1")
        forbidden = runs.judge("-k", "say.skip or say.pass", "--cai-require=i2")
        allowed.assert_outcomes(passed=1, skipped=1, deselected=13)
        forbidden.assert_outcomes(passed=1, failed=1, deselected=13)
        text = forbidden.stdout.str()
        assert "skipped: not offered (required by I2)" in text
        assert "backend recorder: 1 passed, 1 skipped but required" in text

    def test_a_run_that_judged_nothing_fails(self, runs: Runs) -> None:
        """Only skips say nothing about a backend, and nobody should take them for conformance."""
        result = runs.judge("-k", "say.skip", "-qq")
        assert pytest.ExitCode.TESTS_FAILED == result.ret
        assert "cai-conform: nothing was judged: every check was skipped; -rs says why" in result.stdout.str()

    def test_switched_off_expectations_leave_a_failure(self, runs: Runs) -> None:
        """`--runxfail` works as for any test."""
        result = runs.judge("-k", "say.known", "--cai-expect-failures=known.toml", "--runxfail")
        result.assert_outcomes(failed=1, deselected=14)
        assert "as ever" in result.stdout.str()

    def test_a_blocked_check_names_what_blocked_it_when_run_alone(self, runs: Runs) -> None:
        """Prerequisites are judged, silently, though nobody selected them."""
        result = runs.judge("-k", "say.blocked", "-q")
        result.assert_outcomes(failed=1, deselected=14)
        assert "blocked: say.fail did not pass" in result.stdout.str()
        assert "cai-conform: backend recorder: 1 blocked" in result.stdout.str()
