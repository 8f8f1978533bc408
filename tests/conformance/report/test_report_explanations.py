"""Explanations and folded skips in reports: beside the failure they are about, and once for a common reason."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from cai_conformance.report.jsonlines import render_jsonlines
from cai_conformance.report.junit import render_junit
from cai_conformance.report.markdown import render_markdown
from cai_conformance.report.schema import report_schema
from cai_conformance.report.terminal import render_table
from cai_conformance.verdicts import Explanation, Level, Outcome, Report, Verdict
from support_reports import FAIL, PASS, report

FOUND = Explanation(
    ("right: a whole pass; wrong: a cut", "fits: a window | too long (window.plus-one)"),
    "blocks.0.scores",
    (0, 3),
    1.5,
    -2.25,
    12,
    "inherited",
    ("window.plus-one",),
)
EXPLAINED = replace(FAIL, explanation=FOUND)
UNSHOWN = replace(EXPLAINED, differences=())


def skipped(number: int, reason: str = "the backend cannot be driven") -> Verdict:
    """Return a skip."""
    return Verdict(f"course.ngram::drive[{number}]", Level.I2, Outcome.SKIPPED, reason)


def table(told: Report, width: int = 100, verbose: int = 0) -> str:
    """Return what a terminal of some width shows."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    render_table(told, console, verbose)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class TestMarkdown:
    """In a comment, where a failure is folded away."""

    def test_lines_stand_between_the_message_and_the_differences(self) -> None:
        """As a list whose text is no markup."""
        text = render_markdown(report(EXPLAINED))
        expected = """14 of 60 values differ

* right: a whole pass; wrong: a cut
* fits: a window | too long (window.plus-one)

```
STAGE index=0"""
        assert expected in text

    def test_a_failure_without_differences_has_no_empty_block(self) -> None:
        """Nor counts any."""
        text = render_markdown(report(UNSHOWN))
        assert "```" not in text
        assert "<details><summary><code>course.ngram::fwd.oracle[hidden]</code></summary>" in text
        assert "* fits: a window | too long (window.plus-one)\n\n</details>" in text


class TestJson:
    """As fields, for programs."""

    def test_every_field_is_there(self) -> None:
        """And the schema knows them."""
        lines = [json.loads(line) for line in render_jsonlines(report(EXPLAINED, PASS))]
        assert {
            "lines": list(FOUND.lines),
            "stage": "blocks.0.scores",
            "index": [0, 3],
            "expected": 1.5,
            "found": -2.25,
            "ulp": 12,
            "origin": "inherited",
            "conventions": ["window.plus-one"],
        } == lines[1]["explanation"]
        assert lines[2]["explanation"] is None
        schema = report_schema()["$defs"]
        assert isinstance(schema, dict)
        assert set(lines[1]["explanation"]) == set(schema["explanation"]["required"])

    @pytest.mark.parametrize("value", [math.nan, math.inf, None])
    def test_what_json_has_no_number_for_is_null(self, value: float | None) -> None:
        """The line can be read by everybody."""
        line = list(render_jsonlines(report(replace(FAIL, explanation=replace(FOUND, found=value)))))[1]
        found = json.loads(line)["explanation"]
        assert (1.5, None) == (found["expected"], found["found"])


class TestTable:
    """At a terminal."""

    def test_lines_stand_below_the_failure(self) -> None:
        """In front of the differences, in every width."""
        for width in (60, 200):
            text = table(report(EXPLAINED), width)
            places = [
                text.index(part) for part in ("FAIL course.ngram", "right: a whole pass", "fits: a window", "1. STAGE")
            ]
            assert sorted(places) == places

    def test_a_reason_of_many_skips_is_told_once(self) -> None:
        """From four on; each has its row where all is asked for."""
        few, many = (report(PASS, *map(skipped, range(count))) for count in (3, 4))
        assert 3 == table(few).count("the backend cannot be driven")
        assert "drive[2]" in table(few)
        folded = table(many)
        assert "4 checks skipped: the backend cannot be driven" in folded
        assert "drive[" not in folded
        assert 4 == table(many, verbose=1).count("drive[")

    def test_other_reasons_and_required_skips_keep_their_rows(self) -> None:
        """What a level demands must be seen."""
        text = table(report(*map(skipped, range(4)), skipped(9, "another reason")))
        assert "drive[9]" in text
        required = table(report(*map(skipped, range(4)), required=Level.I3))
        assert 4 == required.count("SKIPPED")


def test_junit_says_it_too() -> None:
    """Beside the differences."""
    assert "fits: a window | too long (window.plus-one)" in render_junit(report(EXPLAINED))
