"""What is collected, how it is selected, and what the backend is asked for it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cai_conformance.verdicts import Verdict
from support_cli import environment_of
from support_pytest_runs import MODULE, Runs, cases_of, properties_of
from support_pytest_suites import QUIET, SUITES, TALKATIVE

pytest_plugins = ["pytester"]

CHECKS = [f"cai_conformance::{check}" for suite in SUITES for check in suite.check_ids()]

INERT = f"""
import sys, pytest
class After:
    def pytest_unconfigure(self):
        print("\\n" + " ".join(sorted(name for name in sys.modules if name.startswith(("cai_", "numpy", "rich")))))
pytest.main(["-q", "-p", "{MODULE}", "own"], plugins=[After()])
"""


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs of pytest on the small suites."""
    return Runs(pytester, monkeypatch)


def listed(result: pytest.RunResult) -> list[str]:
    """Return the node ids that `--collect-only -q` printed."""
    return [line for line in result.outlines if "::" in line]


class TestCollection:
    """One test a check, known without the backend."""

    def test_checks_are_collected_in_order_without_asking_or_loading_the_backend(self, runs: Runs) -> None:
        """A node id ends in the full id of the check; a backend that does not exist disturbs nobody."""
        result = runs.judge("--collect-only", "-q", "--cai-backend=no_such_module:backend")
        assert pytest.ExitCode.OK == result.ret
        assert CHECKS == listed(result)
        assert [] == runs.asked()

    @pytest.mark.parametrize(
        ("arguments", "count"),
        [
            (["--cai-suite=kv-cache"], len(QUIET)),
            (["--cai-suite=ngram", "--cai-suite=cai.kv-cache"], len(CHECKS)),
            (["-k", "ngram and say and not fail"], len(TALKATIVE) - 2),
            (["--deselect=cai_conformance::course.ngram"], len(QUIET)),
        ],
    )
    def test_options_of_both_select(self, runs: Runs, arguments: list[str], count: int) -> None:
        """Suites by the plugin's option, checks by pytest's."""
        assert count == len(listed(runs.judge("--collect-only", "-q", *arguments)))

    def test_printed_node_ids_can_be_given_back(self, runs: Runs) -> None:
        """A suite, a check, a case."""
        names = ["cai.kv-cache", "course.ngram::say.pass", "course.ngram::say.fail[late]"]
        result = runs.plain("--pyargs", *(f"cai_conformance::{name}" for name in names), "--collect-only", "-q")
        expected = [check for check in CHECKS if any(check.startswith(f"cai_conformance::{name}") for name in names)]
        assert len(QUIET) + 2 == len(expected)
        assert sorted(expected) == sorted(listed(result))

    def test_checks_stand_beside_tests_of_ones_own(self, runs: Runs) -> None:
        """One run, one report."""
        runs.pytester.makepyfile(test_own="def test_own(): pass")
        result = runs.judge("--cai-suite=kv-cache", "test_own.py")
        result.assert_outcomes(passed=len(QUIET) + 1)
        assert "cai-conform: backend recorder: 5 passed" in result.stdout.str()


class TestAsking:
    """A backend is asked once for each suite, and for nothing that was not selected."""

    def test_all_checks_of_a_suite_share_one_answer(self, runs: Runs) -> None:
        """One question a suite, in one process."""
        runs.judge("-q")
        assert [["course.ngram", "strict/1"], ["cai.kv-cache", "strict/1"]] == [asked[1:] for asked in runs.asked()]

    def test_options_reach_the_question_and_the_backend_is_let_go(self, runs: Runs) -> None:
        """Arithmetic and policy as given; a backend with a `close` is closed once, at the end."""
        options = ("--cai-arithmetic=libm", "--cai-policy=ulp:3", "--junitxml=report.xml")
        runs.judge("-q", "--cai-suite=kv-cache", *options)
        cases = cases_of(runs.folder / "report.xml")
        assert {"libm/1"} == {properties_of(case)["arithmetic"] for case in cases.values()}
        assert "9 bytes, policy ulp" == properties_of(cases["cai.kv-cache::trace.format"])["reason"]
        assert [["cai.kv-cache", "libm/1"], ["closed"]] == [words[1:] for words in runs.noted()]

    def test_what_is_not_selected_is_not_asked(self, runs: Runs) -> None:
        """One check, one suite."""
        runs.judge("-q", "-k", "quiet.pass2")
        assert ["cai.kv-cache"] == [asked[1] for asked in runs.asked()]

    def test_the_first_failure_ends_a_run_before_the_next_suite(self, runs: Runs) -> None:
        """`-x` saves what would come."""
        result = runs.judge("-x")
        result.assert_outcomes(passed=3, skipped=1, failed=1)
        assert ["course.ngram"] == [asked[1] for asked in runs.asked()]

    def test_last_failures_are_run_again_and_nothing_else(self, runs: Runs) -> None:
        """`--lf` knows the checks by their ids, cases included, and errors, too."""
        runs.judge("-q")
        again = runs.judge("--lf")
        again.assert_outcomes(failed=4, errors=1, deselected=len(CHECKS) - 5)
        assert ["course.ngram"] == [asked[1] for asked in runs.asked()][2:]

    def test_a_defect_shows_where_it_is(self, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is no verdict keeps its traceback, from the plugin on; what comes behind it in the suite says so."""

        def defect(*_: object) -> Iterator[Verdict]:
            raise ZeroDivisionError("a defect")
            yield

        monkeypatch.setattr("cai_conformance.run.pytest_plugin.judging.run_suites", defect)
        result = runs.judge("--cai-suite=kv-cache", "-k", "quiet")
        result.assert_outcomes(errors=4, deselected=1)
        text = result.stdout.str().partition("ERRORS")[2]
        assert 1 == text.count("ZeroDivisionError: a defect\n")
        assert 3 == text.count("LookupError: the judging of this suite has ended")
        assert "pluggy" not in text
        assert "cai-conform: backend support_pytest_suites:backend: 4 errored" in text


class TestWorkers:
    """With pytest-xdist, each suite stays in one worker."""

    @pytest.mark.parametrize(
        ("arguments", "chosen"),
        [(["-n2"], "loadscope"), (["-n2", "--dist=worksteal"], "worksteal"), (["-n0"], "no"), ([], "no")],
    )
    def test_whole_suites_are_distributed_unless_the_user_says_otherwise(
        self, runs: Runs, arguments: list[str], chosen: str
    ) -> None:
        """A scope ends before the last `::`, which is where the check begins."""
        runs.pytester.makeconftest("def pytest_report_header(config): return f'dist={config.option.dist}'")
        assert f"dist={chosen}" in runs.judge("--collect-only", *arguments).outlines

    def test_suites_are_groups_for_those_who_distribute_groups(self, runs: Runs) -> None:
        """The mark of pytest-xdist, on every check."""
        runs.pytester.makeconftest(
            "def pytest_report_collectionfinish(items):"
            " return ['group ' + item.get_closest_marker('xdist_group').args[0] for item in items]"
        )
        groups = Counter(line for line in runs.judge("--collect-only").outlines if line.startswith("group "))
        assert {f"group {suite.identifier}": len(suite.check_ids()) for suite in SUITES} == groups

    @pytest.mark.exhaustive
    def test_each_suite_is_asked_once_whoever_judges_it(self, runs: Runs) -> None:
        """And the summary of the run counts what the workers found."""
        result = runs.apart("-n2", "--cai-expect-failures=known.toml", "--junitxml=report.xml")
        result.assert_outcomes(passed=8, skipped=1, failed=4, errors=1, xfailed=1)
        asked = runs.asked()
        assert {"course.ngram": 1, "cai.kv-cache": 1} == Counter(suite for _, suite, _ in asked)
        assert 2 == len({process for process, _, _ in asked})
        assert "cai-conform: backend recorder: 7 passed, 1 near tie, 1 expected failure" in result.stdout.str()
        assert "nothing was judged" not in result.stdout.str()
        assert set(CHECKS) == {f"cai_conformance::{check}" for check in cases_of(runs.folder / "report.xml")}

    @pytest.mark.exhaustive
    def test_a_backend_that_cannot_be_loaded_ends_the_run_once(self, runs: Runs) -> None:
        """Not once for each worker or check."""
        result = runs.apart("-n2", "--cai-backend=no_such_module:backend")
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        assert ["ERROR: backend 'no_such_module:backend' cannot be loaded: ModuleNotFoundError: "] == [
            line.partition("No module")[0] for line in result.errlines if line.startswith("ERROR")
        ]


class TestRefusals:
    """What cannot be meant ends a run before anything is judged: pytest's exit status 4, and one sentence."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--cai-suite=nothing"], "suite 'nothing' is unknown"),
            (["--cai-arithmetic=loose"], "unknown arithmetic 'loose'"),
            (["--cai-policy=loose"], "policy 'loose' is unknown"),
            (["--cai-require=I9"], "level 'I9' is unknown"),
            (["--cai-backend=nobody"], "backend 'nobody' is unknown"),
            (["--cai-expect-failures=none.toml"], "none.toml: no such expected-failure file"),
            (["--cai-expect-failures=wrong.toml"], "check 'course.ngram::say.nothing' matches no known check"),
        ],
    )
    def test_an_option_that_names_nothing(self, runs: Runs, arguments: list[str], sentence: str) -> None:
        """Suite, arithmetic, policy, level, backend, file, entry."""
        (runs.folder / "wrong.toml").write_text(
            "[[expected-failure]]\ncheck = 'course.ngram::say.nothing'\nreason = 'r'\n", encoding="utf-8"
        )
        result = runs.judge(*arguments)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        assert sentence in result.stderr.str()
        assert [] == runs.asked()

    def test_an_option_without_the_argument(self, runs: Runs) -> None:
        """Nobody should take their own tests for a judged backend; in a configuration file, options may wait."""
        runs.pytester.makepyfile("def test_own(): pass")
        result = runs.plain("--cai-backend=reference")
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        assert "--cai-backend judges nothing without the arguments --pyargs cai_conformance" in result.stderr.str()
        runs.pytester.makeini("[pytest]\naddopts = --cai-backend=reference")
        runs.plain().assert_outcomes(passed=1)

    def test_an_unknown_node_id(self, runs: Runs) -> None:
        """As for any test."""
        result = runs.plain("--pyargs", "cai_conformance::course.ngram::say.nothing")
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        assert "not found" in result.stderr.str()


class TestInertness:
    """In a run that asks for no checks, the plugin is not to be noticed."""

    def test_a_run_of_other_tests_imports_nothing_more(self, tmp_path: Path) -> None:
        """No suites, no numbers: three small modules."""
        own = tmp_path / "own"
        own.mkdir()
        (own / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", INERT],
            cwd=tmp_path,
            env=environment_of(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        loaded = done.stdout.splitlines()[-1].split()
        home = "cai_conformance.run.pytest_plugin"
        ours = ["cai_conformance", MODULE, "cai_conformance.run", home, f"{home}.arguments", f"{home}.options"]
        assert ours == loaded

    def test_it_says_nothing_there(self, runs: Runs) -> None:
        """No header, no summary: wherever the project lies, the lines are those of a run without it."""
        runs.pytester.makepyfile("def test_own(): pass")
        said, otherwise = (
            [line for line in result.outlines if not line.startswith("plugins:") and " in 0." not in line]
            for result in (runs.plain("-v"), runs.pytester.runpytest_inprocess("-p", "xdist", "-v"))
        )
        assert otherwise == said

    def test_its_options_are_in_the_help(self, runs: Runs) -> None:
        """Under a heading of their own."""
        text = runs.plain("--help").stdout.str()
        block = text.partition("conformance checks (--pyargs cai_conformance):\n")[2].partition("\n\n")[0]
        for option in ("backend", "suite", "arithmetic", "policy", "expect-failures", "require"):
            assert f"--cai-{option}=" in block
