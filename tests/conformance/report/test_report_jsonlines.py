from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from cai_conformance.report.jsonlines import render_jsonlines
from cai_conformance.verdicts import Difference, Level, Problem
from support_reports import EVERY_OUTCOME, FAIL, PASS, XFAIL, report


def strictly(line: str) -> dict[str, object]:
    """Parse a line as JSON, without the tokens that Python adds to it."""

    def refuse(token: str) -> object:
        raise AssertionError(f"{token} is not JSON")

    value: dict[str, object] = json.loads(line, parse_constant=refuse)
    return value


def test_the_lines_of_a_small_report() -> None:
    """The run comes first, each verdict has all its fields, the summary comes last."""
    verdict = replace(XFAIL, differences=(Difference(Problem.MISSING, "STAGE index=1"),), seconds=0.5)
    verdict = replace(verdict, met=(("compared rows", 3),))
    assert [
        {
            "type": "run",
            "format": 1,
            "backend": "reference",
            "versions": {
                "grammar": "1",
                "protocol": "1",
                "arithmetic": "strict/1",
                "suites": {"course.ngram": "1.0.0", "cai.kv-cache": "0.3.0"},
                "vectors": {"course.ngram": "1.2.0"},
            },
            "required": "T3",
            "notes": ["a note"],
        },
        {
            "type": "verdict",
            "check": "course.ngram::bits.parameters",
            "suite": "course.ngram",
            "level": "T3",
            "track": "training",
            "outcome": "xfail",
            "message": "parameters differ",
            "met": {"compared rows": 3},
            "differences": [
                {
                    "problem": "missing",
                    "record": "STAGE index=1",
                    "field": "",
                    "index": None,
                    "expected": "",
                    "found": "",
                    "ulp": None,
                }
            ],
            "explanation": None,
            "reason": "sums in float32",
            "link": "https://example.org/issues/7",
            "seconds": 0.5,
        },
        {
            "type": "summary",
            "counts": {
                "pass": 0,
                "near_tie": 0,
                "xfail": 1,
                "skipped": 0,
                "fail": 0,
                "xpass": 0,
                "blocked": 0,
                "errored": 0,
            },
            "exit_code": 0,
            "meaning": "conforms, apart from the expected failures",
        },
    ] == [strictly(line) for line in render_jsonlines(report(verdict, required=Level.T3, notes=("a note",)))]


def test_verdicts_keep_their_order_and_all_differences() -> None:
    """One line a verdict, in the order of the report, with nothing capped."""
    values = [strictly(line) for line in render_jsonlines(report(*EVERY_OUTCOME))]
    assert ["run", *["verdict"] * 8, "summary"] == [value["type"] for value in values]
    assert [verdict.check for verdict in EVERY_OUTCOME] == [value["check"] for value in values[1:-1]]
    differences = values[2]["differences"]
    assert isinstance(differences, list)
    assert len(FAIL.differences) == len(differences)
    assert 4096 == differences[13]["ulp"]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_number_becomes_null(seconds: float) -> None:
    """NaN and infinity are not JSON."""
    _, line, _ = render_jsonlines(report(replace(PASS, seconds=seconds)))
    assert strictly(line)["seconds"] is None


def test_values_that_are_not_finite_stay_words() -> None:
    """A difference between texts may say nan, as a string."""
    odd = Difference(Problem.NAN, "LOSS step=1", "train", None, "1.0", "nan")
    _, line, _ = render_jsonlines(report(replace(FAIL, differences=(odd,))))
    assert '"found": "nan"' in line
    strictly(line)


def test_any_pipe_can_carry_the_lines() -> None:
    """Foreign letters, lone surrogates and line separators leave each line plain ASCII and come back unchanged."""
    message = "é😀 \udc80 \u2028 \n \x00"
    _, line, _ = render_jsonlines(report(replace(PASS, message=message)))
    assert line.isascii()
    assert 1 == len(line.splitlines())
    assert message == strictly(line)["message"]
