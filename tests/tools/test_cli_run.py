"""`cai-conform run` and `smoke`: exit codes, formats, filters, expectations, levels, and backends that misbehave."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

from support_cli import Result, invoke
from support_inputs import input_of
from support_traces import SUITE, golden_bytes, with_field

GOOD = ("--backend", "stored:good")


def lines_of(result: Result) -> list[dict[str, object]]:
    """Return the JSON lines of a report."""
    return [json.loads(line) for line in result.out.splitlines()]


def outcomes(result: Result) -> dict[str, str]:
    """Return the outcome of each check, by its id without the suite."""
    verdicts = [line for line in lines_of(result) if line["type"] == "verdict"]
    return {str(line["check"]).partition("::")[2]: str(line["outcome"]) for line in verdicts}


def message(result: Result, check: str) -> str:
    """Return the message of one check."""
    return next(str(line["message"]) for line in lines_of(result) if line.get("check") == f"course.ngram::{check}")


@pytest.mark.exhaustive
def test_the_reference_conforms() -> None:
    """The main job: every check of the suite on the reference, in a pipe as JSON lines, nothing on standard error."""
    result = invoke("run", "ngram")
    assert (0, "") == (result.code, result.err)
    first, *verdicts, last = lines_of(result)
    assert ("run", "reference", "summary", 0) == (first["type"], first["backend"], last["type"], last["exit_code"])
    assert list(SUITE.check_ids()) == [verdict["check"] for verdict in verdicts]
    assert {"pass": len(verdicts) - 2, "skipped": 2} == Counter(verdict["outcome"] for verdict in verdicts)


def test_the_five_versions_are_in_the_report() -> None:
    """Grammar, protocol, arithmetic, suites, vectors."""
    first = lines_of(invoke("run", "ngram", *GOOD))[0]
    versions = first["versions"]
    assert isinstance(versions, dict)
    assert ["grammar", "protocol", "arithmetic", "suites", "vectors"] == list(versions)
    assert ({"course.ngram": "1.1.0"}, "strict/1") == (versions["suites"], versions["arithmetic"])
    assert versions["vectors"]["course.ngram"].startswith("sha256:")


class TestBackends:
    """What a backend may do wrong, and what the exit code says."""

    @pytest.mark.parametrize(
        ("name", "code", "check", "outcome", "beginning"),
        [
            ("good", 0, "run.bits", "pass", "16 records equal to the golden in every bit"),
            ("raising", 2, "trace.format", "errored", "stored crashed: ValueError: no such layer"),
            ("leaving", 2, "trace.format", "errored", "stored crashed: SystemExit: 0"),
            ("garbage", 1, "trace.format", "fail", "line 1"),
            ("half", 1, "trace.format", "fail", "line 1"),
            ("other_suite", 1, "trace.format", "fail", "line 1, TRACE, field suite: suite course.other is unknown"),
            ("other_profile", 1, "trace.format", "fail", "TRACE, field profile: the trace states edges, golden was"),
            ("nan_bits", 1, "run.bits", "fail", "BITS step=3, field batch_loss: nan, expected "),
            ("other_convention", 1, "trace.convention", "fail", "CONVENTION, field argmax: the backend follows an"),
            ("wrong_loss", 1, "run.golden", "fail", "LOSS step=8, field train: value, expected "),
            ("restless", 1, "run.replay", "fail", "line 14 changed from GENERATE|"),
            ("textual", 0, "tok.fit[tie]", "skipped", "stored does not offer profile edges: it is not stored"),
        ],
    )
    def test_each_has_its_verdict_and_exit_code(
        self, name: str, code: int, check: str, outcome: str, beginning: str
    ) -> None:
        """Errored is 2, failed is 1, not offered is 0."""
        result = invoke("run", "ngram", "--backend", f"stored:{name}")
        assert (code, "", outcome) == (result.code, result.err, outcomes(result)[check])
        assert message(result, check).startswith(beginning)

    def test_a_wrong_digit_contradicts_the_bits_of_the_same_trace(self) -> None:
        """A wrong LOSS with a right digest fails against the golden and against itself; the bits are right."""
        found = outcomes(invoke("run", "ngram", "--backend", "stored:wrong_loss"))
        assert {"run.golden": "fail", "trace.recount": "fail"} == {
            check: outcome for check, outcome in found.items() if outcome not in ("pass", "skipped")
        }

    def test_what_a_backend_prints_does_not_spoil_the_results(self) -> None:
        """It goes to standard error; every line of standard output is JSON."""
        result = invoke("run", "ngram", "--backend", "stored:printing")
        assert (0, "loading weights\n" * 2) == (result.code, result.err)
        assert len(SUITE.check_ids()) + 2 == len(lines_of(result))

    def test_a_recorded_trace_is_a_backend(self, tmp_path: Path) -> None:
        """What a file cannot do is skipped."""
        path = tmp_path / "trace.txt"
        path.write_bytes(golden_bytes())
        result = invoke("run", "ngram", "--backend", f"trace:{path}")
        found = outcomes(result)
        assert (0, "pass", "skipped", "skipped") == (
            result.code,
            found["run.bits"],
            found["run.replay"],
            found["tok.fit[tie]"],
        )

    def test_a_trace_of_another_profile_answers_nothing(self, tmp_path: Path) -> None:
        """Nothing judged is exit code 2."""
        path = tmp_path / "trace.txt"
        path.write_bytes(with_field("TRACE", "profile", "foreign"))
        result = invoke("run", "ngram", "--backend", f"trace:{path}")
        assert (2, {"skipped"}) == (result.code, set(outcomes(result).values()))
        assert "nothing was judged" in result.out

    def test_two_jobs_find_what_one_finds(self) -> None:
        """Replays beside the first run."""
        for name in ("good", "restless"):
            alone = invoke("run", "ngram", "--backend", f"stored:{name}")
            beside = invoke("run", "ngram", "--backend", f"stored:{name}", "--jobs", 2)
            assert (alone.code, outcomes(alone)) == (beside.code, outcomes(beside))


class TestFormats:
    """The same report for terminals, programs, pull requests and CI servers."""

    def test_a_table_names_every_check(self) -> None:
        """And ends in the sentence that explains the exit code."""
        result = invoke("run", "ngram", *GOOD, "--format", "table")
        assert all(check.partition("::")[2] in result.out for check in SUITE.check_ids())
        assert f"{len(SUITE.check_ids())} checks: " in result.out
        assert result.out.endswith("Exit 0: conforms.\n")

    def test_markdown_and_junit_hold_the_same_verdicts(self) -> None:
        """One table row, one test case each."""
        markdown = invoke("run", "ngram", *GOOD, "--format", "markdown")
        assert (0, True) == (markdown.code, "run.bits" in markdown.out)
        junit = invoke("run", "ngram", "--backend", "stored:half", "--format", "junit")
        root = ElementTree.fromstring(junit.out.encode())
        assert 1 == junit.code
        assert len(SUITE.check_ids()) == len(root.findall(".//testcase"))

    def test_quiet_leaves_what_did_not_pass(self) -> None:
        """In a table: no passing check, and the summary."""
        result = invoke("run", "ngram", *GOOD, "-f", "table", "-q")
        assert "trace.format" not in result.out
        assert "published.bits" in result.out
        assert result.out.endswith("Exit 0: conforms.\n")

    def test_verbose_adds_times(self) -> None:
        """A column of seconds."""
        plain = invoke("run", "ngram", *GOOD, "-f", "table", "-k", "trace.format")
        verbose = invoke("run", "ngram", *GOOD, "-f", "table", "-k", "trace.format", "-v")
        assert ("seconds" in plain.out, "seconds" in verbose.out) == (False, True)

    @pytest.mark.parametrize(
        ("options", "environment", "coloured"),
        [
            ((), {}, False),
            (("--color", "always"), {}, True),
            (("--color", "never"), {"FORCE_COLOR": "1"}, False),
            ((), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
            ((), {"FORCE_COLOR": "1"}, True),
            (("--color", "always"), {"NO_COLOR": "1"}, True),
        ],
    )
    def test_colour_is_as_asked_for(
        self, options: tuple[str, ...], environment: dict[str, str], coloured: bool
    ) -> None:
        """An option comes before NO_COLOR, which comes before the terminal."""
        result = invoke("run", "ngram", *GOOD, "-f", "table", "-k", "trace.format", *options, environment=environment)
        assert coloured == ("\x1b[32m" in result.out)

    def test_a_terminal_gets_a_table_where_nobody_asks(self) -> None:
        """A pipe gets JSON lines."""
        command = ("run", "ngram", *GOOD, "-k", "trace.format")
        shown = invoke(*command, environment={"FORCE_COLOR": "1", "NO_COLOR": "1"})
        assert shown.out == invoke(*command, "-f", "table", environment={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
        assert "{" == invoke(*command).out[0] != shown.out[0]

    def test_the_schema_describes_the_lines(self) -> None:
        """`--schema` prints it and judges nothing."""
        result = invoke("run", "--schema", "--backend", "nothing")
        schema = json.loads(result.out)
        assert (0, "", 3) == (result.code, result.err, len(schema["oneOf"]))


class TestSelection:
    """Which checks are reported, and which skips are tolerated."""

    def test_a_filter_selects_by_id(self) -> None:
        """Only those are reported."""
        result = invoke("run", "ngram", *GOOD, "-k", "trace and not recount")
        assert ["trace.format", "trace.convention"] == list(outcomes(result))

    def test_a_filter_that_matches_nothing_is_an_error(self) -> None:
        """Exit code 2, and nothing on standard output."""
        result = invoke("run", "-k", "nothing-matches")
        assert (2, "") == (result.code, result.out)
        assert "cai-conform: no check matches -k 'nothing-matches'\ntry: cai-conform list\n" == result.err

    @pytest.mark.parametrize(("level", "code"), [("I3", 1), ("i0", 1), ("T1", 1), ("T0", 1)])
    def test_a_required_level_turns_its_skips_into_failures(self, level: str, code: int) -> None:
        """A backend without vector cases does not reach a level that needs them."""
        result = invoke("run", "ngram", "--backend", "stored:textual", "--require", level)
        assert code == result.code

    def test_skips_above_the_required_level_are_tolerated(self) -> None:
        """The published facts are T3."""
        assert 0 == invoke("run", "ngram", *GOOD, "--require", "T2").code
        assert 1 == invoke("run", "ngram", *GOOD, "--require", "T3").code

    def test_a_suite_is_judged_once(self) -> None:
        """However often it is named."""
        result = invoke("run", "ngram", "course.ngram", *GOOD, "-k", "trace.format")
        assert ["trace.format"] == list(outcomes(result))


class TestExpectations:
    """The strict file of expected failures."""

    @staticmethod
    def file(folder: Path, check: str) -> Path:
        """Return a file that expects one failure."""
        path = folder / "expected.toml"
        path.write_text(f'[[expected-failure]]\ncheck = "{check}"\nreason = "known"\n', encoding="utf-8")
        return path

    def test_an_expected_failure_is_no_failure(self, tmp_path: Path) -> None:
        """xfail, with the reason."""
        path = self.file(tmp_path, "course.ngram::run.replay")
        result = invoke("run", "ngram", "--backend", "stored:restless", "--expect-failures", path)
        assert (0, "xfail") == (result.code, outcomes(result)["run.replay"])
        assert '"reason": "known"' in result.out

    def test_an_unexpected_pass_is_a_failure(self, tmp_path: Path) -> None:
        """xpass: the entry has to go."""
        path = self.file(tmp_path, "course.ngram::run.*")
        result = invoke("run", "ngram", *GOOD, "--expect-failures", path)
        assert (1, "xpass") == (result.code, outcomes(result)["run.replay"])

    def test_an_unknown_check_is_an_error(self, tmp_path: Path) -> None:
        """Exit code 2, and the closest id."""
        result = invoke("run", "ngram", *GOOD, "--expect-failures", self.file(tmp_path, "course.ngram::run.reply"))
        assert (2, "") == (result.code, result.out)
        assert "the closest is 'course.ngram::run.replay'" in result.err


def test_a_foreign_corpus_is_judged_without_a_golden(tmp_path: Path) -> None:
    """The golden judges skip, the others judge, the reference conforms."""
    result = invoke("run", "ngram", *input_of(tmp_path).options, "-k", "data.split or recount or convention")
    expected = {"trace.convention": "pass", "data.split": "skipped", "trace.recount": "pass"}
    assert (0, expected) == (result.code, outcomes(result))


@pytest.mark.parametrize(("name", "code"), [("good", 0), ("textual", 2)])
def test_smoke_asks_for_one_short_trace(name: str, code: int) -> None:
    """The answers to vector cases show whether the plumbing works; a backend without them has shown nothing."""
    result = invoke("smoke", "--backend", f"stored:{name}")
    assert code == result.code
    assert {"trace.format", "trace.convention"} < set(outcomes(result))
    assert "run.golden" not in outcomes(result)
