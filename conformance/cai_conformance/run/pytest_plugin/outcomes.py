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

The block at the end of a run: how the backend came out, and whether anything was judged at all.
"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Final

import pytest

from cai_conformance.report import words
from cai_conformance.report.terminal import printable
from cai_conformance.report.words import BAD
from cai_conformance.run.pytest_plugin.arguments import PACKAGE
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


WORDS: Final = {
    Outcome.PASS: ("passed", "passed"),
    Outcome.NEAR_TIE: ("near tie", "near ties"),
    Outcome.XFAIL: ("expected failure", "expected failures"),
    Outcome.SKIPPED: ("skipped", "skipped"),
    Outcome.FAIL: ("failed", "failed"),
    Outcome.XPASS: ("unexpected pass", "unexpected passes"),
    Outcome.BLOCKED: ("blocked", "blocked"),
    Outcome.ERRORED: ("errored", "errored"),
}
"""One and many."""


class Summary:
    """Counts verdicts in the process that reports, whichever process judged."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._verdicts: dict[str, Outcome] = {}
        self._required: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the verdict of a check."""
        if not report.nodeid.startswith(f"{PACKAGE}::"):
            return
        stated = dict(report.user_properties)
        if "verdict" in stated:
            self._backend = str(stated["backend"])
            self._verdicts[report.nodeid] = Outcome(str(stated["verdict"]))
            if report.failed and self._verdicts[report.nodeid] is Outcome.SKIPPED:
                self._required.add(report.nodeid)
        elif report.failed:
            self._verdicts[report.nodeid] = Outcome.ERRORED

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a run fail in which every check was skipped: it says nothing about the backend."""
        if self._judged_nothing() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line, and another one if nothing was judged."""
        if not self._verdicts:
            return
        if terminalreporter.config.get_verbosity() > -2:
            good = not self._required and not BAD.intersection(self._verdicts.values())
            line = f"cai-conform: backend {self._backend}: {self._counted()}"
            terminalreporter.write_line(line, green=good, red=not good)
        if self._judged_nothing():
            line = "cai-conform: nothing was judged: every check was skipped; -rs says why"
            terminalreporter.write_line(line, red=True)

    def _counted(self) -> str:
        counts = Counter(self._verdicts.values())
        counts[Outcome.SKIPPED] -= len(self._required)
        parts = [f"{counts[one]} {WORDS[one][counts[one] != 1]}" for one in Outcome if counts[one]]
        if self._required:
            parts.append(f"{len(self._required)} skipped but required")
        return ", ".join(parts)

    def _judged_nothing(self) -> bool:
        return bool(self._verdicts) and set(self._verdicts.values()) == {Outcome.SKIPPED}
