"""From the options of a run to what they name, checked before anything is collected.

Judging in one process: each suite is asked once, and goes on only as far as its tests do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pytest

from cai_conformance.backends.arithmetics import arithmetic_identifier
from cai_conformance.backends.protocol import Backend, own_arithmetic
from cai_conformance.backends.registry import resolve
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.errors import ConformanceError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.report.expectations import Expectations, apply_expectations, load_expectations
from cai_conformance.run.questions import Options, question_for, required_level
from cai_conformance.run.runner import SuiteRun, run_suites, versions
from cai_conformance.suites.registry import all_check_ids, find_suites
from cai_conformance.suites.suite import Suite
from cai_conformance.verdicts import Level, Report, Verdict, Versions
from cai_reference.errors import CaiReferenceError


@dataclass(frozen=True)
class Settings:
    """What a run judges, by what, and what it expects.

    Attributes:
        backend: the specification, not yet resolved.
        suites: in registry order.
        options: what is asked differently from the suites' own way.
        expectations: the failures that are known.
        required: the level up to which a skip counts as a failure.
    """

    backend: str
    suites: tuple[Suite, ...]
    options: Options
    expectations: Expectations
    required: Level | None


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of a run.

    Raises:
        pytest.UsageError: an option names something that does not exist, or a file that cannot be used.
    """
    try:
        arithmetic, policy = config.getoption("cai_arithmetic"), config.getoption("cai_policy")
        return Settings(
            config.getoption("cai_backend") or "reference",
            find_suites(config.getoption("cai_suite") or []),
            Options(
                arithmetic if arithmetic is None else arithmetic_identifier(arithmetic),
                policy=parse_policy(policy or "auto"),
            ),
            _expectations(config),
            required_level(config.getoption("cai_require")),
        )
    except (ConformanceError, CaiReferenceError) as error:
        raise pytest.UsageError(explained(error)) from error


def explained(error: ConformanceError | CaiReferenceError) -> str:
    """Return the sentence of an error, and the next command to try where there is one."""
    command = getattr(error, "next_command", "")
    return f"{error}\ntry: {command}" if command else str(error)


def _expectations(config: pytest.Config) -> Expectations:
    file = config.getoption("cai_expect_failures")
    # Where pytest.xfail is switched off, an expected failure is a failure like any other.
    if file is None or config.option.runxfail:
        return Expectations("", ())
    expectations = load_expectations(config.invocation_params.dir / Path(file))
    apply_expectations((), expectations, all_check_ids())
    return expectations


class PluginJudging:
    """The verdicts of this process, found when a test asks for one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._selected: frozenset[str] = frozenset()
        self._suites: dict[str, SuiteVerdicts] = {}

    @cached_property
    def backend(self) -> Backend:
        """The backend, loaded on first use; modules in the working directory count, after the installed ones.

        Raises:
            BackendError: there is no such backend, or it cannot be loaded.
        """
        # pytest is not always started as `python -m pytest`. An empty entry means the working directory.
        if "" not in sys.path:
            sys.path.append("")
        return resolve(self.settings.backend)

    def load(self) -> None:
        """Load the backend, if that has not happened yet.

        Raises:
            BackendError: as `backend`.
        """
        _ = self.backend

    def close(self) -> None:
        """Let go of the backend, if it was loaded: a program that it started must not outlive the run."""
        backend = self.__dict__.pop("backend", None)
        close = getattr(backend, "close", None)
        if callable(close):
            close()

    def select(self, checks: Iterable[str]) -> None:
        """Set which checks are judged; prerequisites that are not among them are judged silently."""
        self._selected = frozenset(checks)

    def report(self, suite: Suite, check: str) -> Report:
        """Return a report of one verdict: that of a check, with the expectations heeded.

        Raises:
            ConformanceError: the backend cannot be loaded, or the suite's own files are damaged.
        """
        if suite.identifier not in self._suites:
            options = self.settings.options
            stated = options.arithmetic or own_arithmetic(self.backend)
            run = SuiteRun(suite, question_for(suite, GoldenStore(locate()), replace(options, arithmetic=stated)))
            found = run_suites([run], self.backend, self._selected.__contains__)
            self._suites[suite.identifier] = SuiteVerdicts(versions([run]), found)
        verdicts = self._suites[suite.identifier]
        verdict = self._expected(verdicts.of(check))
        return Report(self.backend.name, verdicts.versions, (verdict,), self.settings.required)

    def _expected(self, verdict: Verdict) -> Verdict:
        expectations = self.settings.expectations
        if expectations.find(verdict.check) is None:
            return verdict
        return apply_expectations([verdict], expectations, all_check_ids())[0]


@dataclass
class SuiteVerdicts:
    """The verdicts of one suite, as far as they were needed.

    Attributes:
        versions: what the reports of the suite state.
        pending: the verdicts to come, in the order of judging.
        found: those that came, by check.
    """

    versions: Versions
    pending: Iterator[Verdict]
    found: dict[str, Verdict] = field(default_factory=dict)

    def of(self, check: str) -> Verdict:
        """Return the verdict of a check, judging until it comes.

        Raises:
            LookupError: it will not come, because a defect has ended the judging of an earlier one.
        """
        while check not in self.found:
            verdict = next(self.pending, None)
            if verdict is None:
                raise LookupError("the judging of this suite has ended, with an error that stands above")
            self.found[verdict.check] = verdict
        return self.found[check]
