"""Running suites: ask, judge in order, block what depends on a failure, make verdicts.

A check whose prerequisite failed is blocked, not failed: one mistake is reported once. A backend that crashes makes its
checks errored; one that does not offer an answer makes them skipped. A pass that did not meet the witnesses of its
check is none.

The five versions of a run, which every report states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import PROTOCOL_VERSION, Backend
from cai_conformance.checks.check import Check
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.finding import Finding, witnessed
from cai_conformance.diagnosis.explanation.suite import explained, notes_of
from cai_conformance.engine import Refused
from cai_conformance.errors import BackendError, FixtureError
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.records import GRAMMAR
from cai_conformance.verdicts import WALL, Outcome, Verdict, Versions

Selected = Callable[[str], bool]

STOPPING = frozenset({Outcome.FAIL, Outcome.ERRORED, Outcome.BLOCKED})
"""Outcomes of a prerequisite that leave nothing to judge behind it."""


@dataclass(frozen=True)
class SuiteRun:
    """One suite with the question that its backend is asked."""

    suite: Suite
    question: Question


class Judging:
    """Judges a backend by suites: verdicts as they are found, then explanations and notes.

    Args:
        runs: the suites with their questions.
        backend: who answers.
        selected: which full check ids are reported.
        jobs: with 2 or more, runs of a concurrent backend run beside each other, and replays of any other.
    """

    def __init__(self, runs: Sequence[SuiteRun], backend: Backend, selected: Selected, jobs: int = 1) -> None:
        self._runs, self._backend, self._selected, self._jobs = tuple(runs), backend, selected, jobs
        self._judged: list[tuple[Evidence, list[Verdict]]] = []

    def __iter__(self) -> Iterator[Verdict]:
        """Judge, and yield each verdict as it is found."""
        workers = self._jobs if getattr(self._backend, "concurrent", False) else self._jobs - 1
        executor = ThreadPoolExecutor(max_workers=workers) if self._jobs > 1 else None
        try:
            pending = [(run.suite, Evidence(self._backend, run.question, executor)) for run in self._runs]
            for suite, evidence in pending:
                wanted = [check for check in suite.checks if _ids(suite, check, self._selected)]
                if wanted:
                    evidence.start(needs_replay=any(check.needs_replay for check in wanted))
            for suite, evidence in pending:
                if not any(map(self._selected, suite.check_ids())):
                    continue
                settled = _settled(evidence)
                verdicts: list[Verdict] = []
                self._judged.append((settled, verdicts))
                for verdict in judge_suite(suite, settled, self._selected):
                    verdicts.append(verdict)
                    yield verdict
        finally:
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)

    def explained(self) -> tuple[Verdict, ...]:
        """Return all verdicts, the first failure of each kind explained. Mistakes are planted in this process."""
        if not any(verdict.outcome is Outcome.FAIL for _, verdicts in self._judged for verdict in verdicts):
            return tuple(verdict for _, verdicts in self._judged for verdict in verdicts)
        return tuple(verdict for evidence, verdicts in self._judged for verdict in explained(evidence, verdicts))

    def notes(self) -> tuple[str, ...]:
        """Return what was measured, suite by suite, and which known faults would hide below it."""
        if not any(evidence.floor_used or evidence.opened_before for evidence, _ in self._judged):
            return ()
        return tuple(note for evidence, _ in self._judged for note in notes_of(evidence))


def run_suites(runs: Sequence[SuiteRun], backend: Backend, selected: Selected, jobs: int = 1) -> Iterator[Verdict]:
    """Judge a backend by suites, and yield each verdict as it is found; the arguments are those of `Judging`."""
    yield from Judging(runs, backend, selected, jobs)


def _settled(evidence: Evidence) -> Evidence:
    """Return the answers on given weights, where the suite's own run was asked for and the backend makes none."""
    if evidence.question.golden is None:
        return evidence
    try:
        evidence.settle()
    except NotOffered as error:
        return Evidence(evidence.backend, evidence.question.of_given_weights(str(error)))
    except (BackendError, FixtureError):
        # The judges meet the same error, and say so.
        pass
    return evidence


def judge_suite(suite: Suite, evidence: Evidence, selected: Selected) -> Iterator[Verdict]:
    """Judge what a backend has answered, in the order of the suite's checks; yield each selected verdict."""
    outcomes: dict[str, set[Outcome]] = {}
    needed = _with_prerequisites(suite, [check for check in suite.checks if _ids(suite, check, selected)])
    for check in suite.checks:
        if check.name not in needed:
            continue
        begun = WALL()
        findings = _findings(check, evidence, outcomes)
        outcomes[check.name] = {finding.outcome for finding in findings}
        seconds = (WALL() - begun) / len(findings)
        for finding in findings:
            verdict = _verdict(suite, check, finding, seconds)
            if selected(verdict.check):
                yield verdict


def _findings(check: Check, evidence: Evidence, outcomes: dict[str, set[Outcome]]) -> tuple[Finding, ...]:
    for name in check.requires:
        if outcomes[name] & STOPPING:
            text = f"{name} did not pass, so there is nothing sound to judge"
            return _for_each_case(check, Outcome.BLOCKED, text)
    if evidence.question.request.profile == "edges" and not check.of_edges:
        reason = evidence.question.unoffered or "a trace of vector cases has nothing for this check"
        return _for_each_case(check, Outcome.SKIPPED, reason)
    try:
        own = check.of_edges or evidence.question.own
        return tuple(witnessed(found, check.witnesses, own=own) for found in _each_case(check, check.judge(evidence)))
    except (NotOffered, Refused) as error:
        return _for_each_case(check, Outcome.SKIPPED, str(error))
    except TraceFault as error:
        # Another trace than the main one, such as the edges, does not keep the grammar.
        return _for_each_case(check, Outcome.FAIL, str(error))
    except (BackendError, FixtureError) as error:
        return _for_each_case(check, Outcome.ERRORED, str(error))


def _for_each_case(check: Check, outcome: Outcome, message: str) -> tuple[Finding, ...]:
    return tuple(Finding(outcome, message, case=case) for case in check.cases or ("",))


def _each_case(check: Check, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return one finding a case, so that the number of verdicts depends on no input.

    A judge that can say only one thing says it of all cases; a case of which it says nothing is an error.
    """
    if not check.cases:
        return found
    by_case = {finding.case: finding for finding in found}
    if set(by_case) == {""}:
        return tuple(replace(by_case[""], case=case) for case in check.cases)
    silent = Finding(Outcome.ERRORED, "vectors.json and this program disagree about which cases there are")
    known = tuple(by_case.pop(case, replace(silent, case=case)) for case in check.cases)
    return (*known, *by_case.values())


def _verdict(suite: Suite, check: Check, finding: Finding, seconds: float) -> Verdict:
    case = f"[{finding.case}]" if finding.case else ""
    return Verdict(
        f"{suite.identifier}::{check.name}{case}",
        check.level,
        finding.outcome,
        finding.message,
        finding.differences,
        seconds=seconds,
        met=tuple((each.witness.many, each.count) for each in finding.met),
    )


def _ids(suite: Suite, check: Check, selected: Selected) -> list[str]:
    base = f"{suite.identifier}::{check.name}"
    ids = [f"{base}[{case}]" for case in check.cases] or [base]
    return [identifier for identifier in ids if selected(identifier)]


def _with_prerequisites(suite: Suite, checks: Sequence[Check]) -> set[str]:
    needed: set[str] = set()
    pending = [check.name for check in checks]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(suite.check(name).requires)
    return needed


def versions(runs: Iterable[SuiteRun]) -> Versions:
    """Return grammar, protocol, arithmetic, suite and vectors versions of a run."""
    listed = list(runs)
    arithmetics = sorted({run.question.request.arithmetic for run in listed})
    return Versions(
        GRAMMAR,
        PROTOCOL_VERSION,
        ", ".join(arithmetics),
        {run.suite.identifier: run.suite.version for run in listed},
        {run.suite.identifier: run.question.vectors.digest for run in listed},
    )
