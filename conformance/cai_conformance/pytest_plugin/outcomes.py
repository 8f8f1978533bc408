"""From a verdict to an outcome of pytest.

| verdict | pytest |
|---|---|
| pass | passed |
| near_tie | passed, with a section that says why |
| skipped | skipped, with the reason; failed where the required level does not allow it |
| xfail | xfailed, with the reason |
| fail, xpass, blocked | failed |
| errored | error |

What pytest prints of a failure is the verdict, and no traceback: the fault is not in the code that raised it.
"""

from __future__ import annotations

import shlex
from typing import Final

import pytest

from cai_conformance.reports import words
from cai_conformance.reports.screen import printable
from cai_conformance.verdicts import Outcome, Report, Verdict

MOST_DIFFERENCES: Final = 20
"""How many differences a failure lists."""

PROPERTIES: Final = ["backend", "grammar", "protocol", "arithmetic", "suite", "vectors", "level", "verdict", "reason"]
"""The names of the properties of a test, in their order."""


def properties(report: Report) -> list[tuple[str, object]]:
    """Return what JUnit is told about a test: backend, the five versions, level, verdict and the reason."""
    (verdict,) = report.verdicts
    versions = report.versions
    values = (
        report.backend,
        versions.grammar,
        versions.protocol,
        versions.arithmetic,
        versions.suites[verdict.suite],
        versions.vectors[verdict.suite],
        verdict.level.value,
        verdict.outcome.value,
        printable(words.explanation(verdict) or verdict.message),
    )
    return list(zip(PROPERTIES, values, strict=True))


def stop_if_errored(report: Report) -> None:
    """End the test where the backend gave no answer to judge."""
    (verdict,) = report.verdicts
    if verdict.outcome is Outcome.ERRORED:
        pytest.fail(f"errored: {printable(verdict.message)}", pytrace=False)


def settle(report: Report, backend: str) -> str:
    """Give a test the outcome of its verdict; return what is worth saying of one that passes, or an empty string.

    `backend` is the specification, for the command that a failure suggests.
    """
    (verdict,) = report.verdicts
    if verdict.outcome is Outcome.XFAIL:
        pytest.xfail(printable(words.explanation(verdict)))
    if words.is_required_skip(report, verdict):
        pytest.fail(f"skipped: {printable(words.sentence(report, verdict))}", pytrace=False)
    if verdict.outcome is Outcome.SKIPPED:
        pytest.skip(printable(verdict.message))
    if verdict.outcome in words.BAD:
        pytest.fail(failure(report, verdict, backend), pytrace=False)
    return printable(verdict.message) if verdict.outcome is Outcome.NEAR_TIE else ""


def failure(report: Report, verdict: Verdict, backend: str) -> str:
    """Return what is printed: the sentence, one line a difference that it does not name, and what to do next."""
    sentence = printable(words.sentence(report, verdict))
    if verdict.outcome is Outcome.XPASS:
        sentence = f"[XPASS(strict)] {sentence}"
    elif verdict.outcome is Outcome.BLOCKED:
        sentence = f"blocked: {sentence}"
    differences = [text for text in map(str, verdict.differences) if text not in verdict.message]
    lines = [f"  {printable(text)}" for text in differences[:MOST_DIFFERENCES]]
    if len(differences) > MOST_DIFFERENCES:
        lines.append(f"  and {len(differences) - MOST_DIFFERENCES} more")
    if verdict.outcome is Outcome.FAIL:
        command = ["cai-conform", "run", verdict.suite, "--backend", backend, "-k", verdict.check, "--verbose"]
        lines.append(f"try: {shlex.join(command)}")
    return "\n".join([sentence, *lines])
