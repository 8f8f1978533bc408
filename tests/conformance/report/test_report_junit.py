from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.report.junit import render_junit
from cai_conformance.verdicts import Level, Outcome, Report
from support_reports import ERRORED, EVERY_OUTCOME, FAIL, NEAR_TIE, PASS, SKIPPED, XFAIL, XPASS, report


def test_a_small_report_reads_as_expected() -> None:
    """Attributes, properties and reasons stand where readers of JUnit files look for them."""
    short = replace(FAIL, differences=FAIL.differences[:1])
    assert """\
<?xml version='1.0' encoding='us-ascii'?>
<testsuites name="cai-conform" tests="3" failures="1" errors="0" skipped="1" time="1.750">
  <testsuite name="course.ngram" tests="2" failures="1" errors="0" skipped="0" time="1.750">
    <properties>
      <property name="backend" value="reference" />
      <property name="grammar" value="1" />
      <property name="protocol" value="1" />
      <property name="arithmetic" value="strict/1" />
      <property name="suite" value="1.0.0" />
      <property name="vectors" value="1.2.0" />
    </properties>
    <testcase classname="course.ngram" name="tok.fit" time="0.250" />
    <testcase classname="course.ngram" name="fwd.oracle[hidden]" time="1.500">
      <failure type="fail" message="14 of 60 values differ">course.ngram::fwd.oracle[hidden] (I1 forward pass)
14 of 60 values differ
STAGE index=0, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart</failure>
    </testcase>
  </testsuite>
  <testsuite name="cai.kv-cache" tests="1" failures="0" errors="0" skipped="1" time="0.000">
    <properties>
      <property name="backend" value="reference" />
      <property name="grammar" value="1" />
      <property name="protocol" value="1" />
      <property name="arithmetic" value="strict/1" />
      <property name="suite" value="0.3.0" />
      <property name="vectors" value="" />
    </properties>
    <testcase classname="cai.kv-cache" name="kv.split" time="0.000">
      <skipped message="chunked calls are not offered" />
    </testcase>
  </testsuite>
</testsuites>
""" == render_junit(report(PASS, short, SKIPPED))


def test_each_outcome_has_its_element() -> None:
    """Passes and near ties are plain, expected failures are skipped, all that is bad is a failure or an error."""
    cases = {
        str(case.get("name")): case for case in ET.fromstring(render_junit(report(*EVERY_OUTCOME))).iter("testcase")
    }
    assert {
        "tok.fit": [],
        "fwd.oracle[hidden]": ["failure"],
        "fwd.oracle[logits]": ["failure"],
        "opt.step": ["system-out"],
        "bits.parameters": ["skipped"],
        "kv.inc": ["failure"],
        "kv.rollback": ["error"],
        "kv.split": ["skipped"],
    } == {name: [child.tag for child in case] for name, case in cases.items()}
    assert "expected to fail: sums in float32 https://example.org/issues/7" == cases["bits.parameters"][0].get(
        "message"
    )
    assert "xpass" == cases["kv.inc"][0].get("type")


@given(outcomes=st.lists(st.sampled_from(EVERY_OUTCOME), max_size=12), required=st.sampled_from([None, *Level]))
def test_the_attributes_add_up_and_agree_with_the_exit_code(outcomes: list[object], required: Level | None) -> None:
    """Counts equal the elements below them, and the file is red exactly when the exit code is not 0."""
    told = report(*[verdict for verdict in EVERY_OUTCOME for _ in range(outcomes.count(verdict))], required=required)
    root = ET.fromstring(render_junit(told))
    for element in (root, *root.findall("testsuite")):
        cases = list(element.iter("testcase"))
        assert str(len(cases)) == element.get("tests")
        for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert str(len(list(element.iter(tag)))) == element.get(attribute)
    red = root.get("failures") != "0" or root.get("errors") != "0"
    assert red == (told.exit_code() != 0)


@pytest.mark.parametrize("told", [report(), report(SKIPPED)])
def test_a_run_that_judged_nothing_is_red(told: Report) -> None:
    """Continuous integration must not show green where nothing was looked at."""
    errors = [case for case in ET.fromstring(render_junit(told)).iter("testcase") if case.find("error") is not None]
    assert [("cai-conform", "run")] == [(case.get("classname"), case.get("name")) for case in errors]


def test_a_required_skip_is_a_failure() -> None:
    """The level that was asked for turns the skip red."""
    root = ET.fromstring(render_junit(report(PASS, SKIPPED, required=Level.I3)))
    failure = root.find(".//failure")
    assert failure is not None
    assert "chunked calls are not offered (required by I3)" == failure.get("message")


@given(message=st.text(st.characters(exclude_categories=())))
def test_any_message_leaves_the_file_well_formed(message: str) -> None:
    """Control characters, surrogates and markup in a message never break the XML."""
    verdicts = [replace(verdict, message=message, reason=message) for verdict in (ERRORED, XPASS, NEAR_TIE, XFAIL)]
    text = render_junit(report(*verdicts))
    assert text.isascii()
    assert 4 == len(list(ET.fromstring(text).iter("testcase")))


def test_illegal_characters_are_spelt_out() -> None:
    """What XML 1.0 cannot write is shown as an escape; what it can write comes back as it was."""
    root = ET.fromstring(render_junit(report(replace(ERRORED, message="a\x00\x1b\ufffe\udc80<&é😀\n\tb"))))
    error = root.find(".//error")
    assert error is not None
    assert "a\\x00\\x1b\\ufffe\\udc80<&é😀\n\tb" == error.get("message")


def test_times_that_are_no_numbers_count_as_nothing() -> None:
    """NaN in one check does not spoil the sum of the suite."""
    odd = replace(FAIL, outcome=Outcome.PASS, seconds=math.nan)
    assert "0.250" == ET.fromstring(render_junit(report(PASS, odd))).get("time")
