"""The report for continuous integration: JUnit XML, one `testsuite` a suite, one `testcase` a check.

The file is red exactly when the exit code is not 0, and its attributes add up:

| verdict | element |
|---|---|
| pass, near_tie | none |
| fail, xpass, blocked, and a skip that the required level forbids | `failure`, with the verdict as its type |
| errored | `error` |
| skipped, xfail | `skipped`, with the reason |

A run in which nothing was judged gets one more suite, `cai-conform`, whose only case is an error. No timestamps: the
same verdicts give the same bytes, apart from the seconds.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

from cai_conformance.report import words
from cai_conformance.verdicts import Outcome, Report, Verdict

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTERS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def render_junit(report: Report) -> str:
    """The XML document, in ASCII with character references, ending in a line end."""
    root = ET.Element("testsuites", name="cai-conform")
    for suite, verdicts in words.by_suite(report).items():
        element = ET.SubElement(root, "testsuite", name=_legal(suite))
        element.append(_properties(report, suite))
        element.extend(_case(report, verdict) for verdict in verdicts)
        _count(element, [verdict.seconds for verdict in verdicts])
    if all(verdict.outcome is Outcome.SKIPPED for verdict in report.verdicts):
        root.append(_nothing_judged(report))
    _count(root, [verdict.seconds for verdict in report.verdicts])
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _properties(report: Report, suite: str) -> ET.Element:
    versions = report.versions
    values = {
        "backend": report.backend,
        "grammar": versions.grammar,
        "protocol": versions.protocol,
        "arithmetic": versions.arithmetic,
        "suite": versions.suites.get(suite, ""),
        "vectors": versions.vectors.get(suite, ""),
    }
    element = ET.Element("properties")
    for name, value in values.items():
        ET.SubElement(element, "property", name=name, value=_legal(value))
    return element


def _case(report: Report, verdict: Verdict) -> ET.Element:
    case = ET.Element(
        "testcase", classname=_legal(verdict.suite), name=_legal(words.local_id(verdict)), time=_time([verdict.seconds])
    )
    message = _legal(words.sentence(report, verdict))
    kind = _kind(report, verdict)
    if kind == "skipped":
        ET.SubElement(case, kind, message=message)
    elif kind:
        ET.SubElement(case, kind, type=verdict.outcome.value, message=message).text = _legal(_body(verdict))
    elif verdict.outcome is Outcome.NEAR_TIE:
        ET.SubElement(case, "system-out").text = message
    return case


def _kind(report: Report, verdict: Verdict) -> str:
    """The element that a verdict puts into its test case, or an empty string."""
    if verdict.outcome is Outcome.ERRORED:
        return "error"
    if verdict.outcome in words.BAD or words.is_required_skip(report, verdict):
        return "failure"
    if verdict.outcome in (Outcome.SKIPPED, Outcome.XFAIL):
        return "skipped"
    return ""


def _body(verdict: Verdict) -> str:
    """The id and level, then the message and one line a difference."""
    head = [f"{verdict.check} ({verdict.level} {verdict.level.meaning})", verdict.message]
    explanation = verdict.explanation.lines if verdict.explanation else ()
    return "\n".join([*(line for line in head if line), *explanation, *map(str, verdict.differences)])


def _nothing_judged(report: Report) -> ET.Element:
    element = ET.Element("testsuite", name="cai-conform")
    case = ET.SubElement(element, "testcase", classname="cai-conform", name="run", time=_time([]))
    ET.SubElement(case, "error", type="nothing-judged", message=words.exit_meaning(report))
    _count(element, [])
    return element


def _count(element: ET.Element, seconds: list[float]) -> None:
    """Set the attributes that must agree with what stands below the element."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for kind, attribute in _COUNTERS.items():
        element.set(attribute, str(sum(case.find(kind) is not None for case in cases)))
    element.set("time", _time(seconds))


def _time(seconds: list[float]) -> str:
    return f"{math.fsum(value for value in seconds if math.isfinite(value)):.3f}"


def _legal(text: str) -> str:
    r"""The text with the characters that XML 1.0 has no way to write spelt as `\x1b` and the like."""
    return _ILLEGAL.sub(lambda match: match[0].encode("unicode-escape").decode("ascii"), text)
