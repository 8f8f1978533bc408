"""The block at the end of a run: how the backend came out, and whether anything was judged at all."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from cai_conformance.pytest_plugin.arguments import PACKAGE
from cai_conformance.reports.words import BAD
from cai_conformance.verdicts import Outcome

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
