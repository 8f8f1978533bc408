"""Two small suites in place of the real ones, and their backend, for runs of pytest inside tests of the pytest plugin.

Loaded by `-p support_pytest_suites`. The judges ask the backend for bytes and say what their names promise; nothing is
trained. Every question is noted, as process, suite and arithmetic, in the file that `ASKED` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.errors import BackendError
from cai_conformance.suites import Check, find_suite, registry
from cai_conformance.verdicts import Difference, Level, Outcome, Problem

ASKED: Final = "CAI_TEST_ASKED"
"""The variable with the path of the file of questions."""

DIFFERENCES: Final = tuple(
    Difference(Problem.VALUE, f"LOSS step={step}", "train", None, "1.5", "1.6", step) for step in range(25)
)

KNOWN: Final = """
[[expected-failure]]
check = "course.ngram::say.known"
reason = "a known gap"
link = "https://example.org/7"

[[expected-failure]]
check = "course.ngram::say.better"
reason = "it was worse once"
"""
"""An expected-failure file: one entry holds, the other does not."""


class Recorder:
    """A backend that answers with a word, and notes that it was asked."""

    name = "recorder"

    def trace(self, request: TraceRequest) -> bytes:
        """Answer a request."""
        self._note(request.suite, request.arithmetic)
        return b"an answer"

    def replay(self, request: TraceRequest) -> bytes:
        """Answer again."""
        return self.trace(request)

    def close(self) -> None:
        """Note the end."""
        self._note("closed")

    def _note(self, *words: str) -> None:
        path = os.environ.get(ASKED)
        if path:
            with Path(path).open("a", encoding="utf-8") as stream:
                print(os.getpid(), *words, file=stream)


backend = Recorder()


def ask(evidence: Evidence) -> tuple[Finding, ...]:
    """Pass if the backend answers, whatever it says, and tell by which policy it is judged."""
    return (Finding.passed(f"{len(evidence.main_bytes)} bytes, policy {evidence.question.policy.kind}"),)


def crash(evidence: Evidence) -> tuple[Finding, ...]:
    """Crash as a backend does."""
    raise BackendError("backend-crashed", backend=evidence.backend.name, problem="it lost its \x1b[31mweights")


def say(
    outcome: Outcome, message: str, differences: tuple[Difference, ...] = ()
) -> Callable[[Evidence], tuple[Finding, ...]]:
    """Return a judge that has made up its mind."""
    return lambda _: (Finding(outcome, message, differences),)


def check(
    name: str,
    judge: Callable[[Evidence], tuple[Finding, ...]],
    level: Level = Level.I1,
    cases: tuple[str, ...] = (),
    requires: str = "trace.format",
) -> Check:
    """Return a check whose other properties do not matter."""
    return Check(name, level, "it holds", "nothing", judge, cases, (requires,) if requires else ())


FORMAT: Final = check("trace.format", ask, Level.I0, requires="")

TALKATIVE: Final = (
    FORMAT,
    check("say.pass", say(Outcome.PASS, "it holds")),
    check("say.tie", say(Outcome.NEAR_TIE, "two tokens stood 1 ULP apart"), Level.I2),
    check("say.skip", say(Outcome.SKIPPED, "not offered"), Level.I2),
    check("say.fail", say(Outcome.FAIL, "the losses part", DIFFERENCES), cases=("early", "late")),
    check("say.blocked", say(Outcome.PASS, "never judged"), requires="say.fail"),
    check("say.known", say(Outcome.FAIL, "as ever")),
    check("say.better", say(Outcome.PASS, "it holds by now")),
    check("say.error", crash),
)

QUIET: Final = (FORMAT, *(check(f"quiet.pass{number}", say(Outcome.PASS, "it holds")) for number in range(4)))

SUITES: Final = (
    replace(find_suite("course.ngram"), checks=TALKATIVE),
    replace(find_suite("cai.kv-cache"), checks=QUIET),
)
"""What stands in place of all real suites."""


def pytest_addoption() -> None:
    """Exchange the suites for the life of a process, where pytest loads this module by `-p`."""
    registry.SUITES = SUITES
