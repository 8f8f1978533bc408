"""The names of checks, such as `fwd.oracle`, which several suites share.

One fault in one workload: which checks fail, and which cannot say anything.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.checks import checkpoint, initial_values, trace
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.tolerance.floor import FloorSource, NoiseFloor, NoiseLevel
from cai_conformance.checks.tolerance.policy import Policy, PolicyKind
from cai_conformance.errors import SelectionError
from cai_conformance.faults.catalogue import fault_named
from cai_conformance.faults.fault import HeldFault, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.planted import WrongBackend
from cai_conformance.faults.workload import Way, Workload
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.vectors import write_vectors
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import judge_suite
from cai_conformance.suites.registry import SUITES, find_suite
from cai_conformance.suites.suite import Suite
from cai_conformance.verdicts import Outcome
from cai_reference.autograd import Parameter
from cai_reference.layers import matrices as initialization
from cai_reference.splitmix import SplitMix64


def check_names() -> tuple[str, ...]:
    """Return the names of all checks of all suites, each once, in the order of the suites."""
    return tuple(dict.fromkeys(check.name for suite in SUITES for check in suite.checks))


def known_check(name: str) -> str:
    """Return the name of a check.

    Raises:
        SelectionError (unknown-check): no suite has one of this name.
    """
    if name not in check_names():
        raise SelectionError("unknown-check", name=name)
    return name


ALLOWED: Final = Policy(PolicyKind.ULP, 1e6)
"""What a backend may be off in fast arithmetic: some 1e-10 of a row's largest logit, far below every fault."""

ALWAYS: Final = frozenset({trace.judge_grammar.name, trace.judge_conventions.name})
"""Checks that are asked in every way."""

OF_ANSWERS: Final = frozenset({initial_values.judge_initial_statistics.name})
"""Checks that look at answers to vector cases which name another check."""

SLOW: Final = frozenset({trace.judge_replay.name})
"""Checks that need a second run, which is asked of the quickest suite alone."""

CHECKPOINTS: Final = frozenset(
    {checkpoint.judge_roundtrip.name, checkpoint.judge_resume.name, checkpoint.judge_strict.name}
)
"""Checks that train and resume for each of their cases, which take a fifth of the time of all."""

RESUMED: Final = frozenset({Place.TRAINING, Place.LOADING, Place.CHECKPOINT})
"""Where a fault has to act for a checkpoint to show it."""

QUICK: Final = "course.ngram"

FAILED: Final = frozenset({Outcome.FAIL, Outcome.XPASS})

NOT_MEASURED: Final = NoiseLevel((FloorSource("not measured", 0.0, 0.0),))
UNMEASURED: Final = NoiseFloor("float64", NOT_MEASURED, NOT_MEASURED, measured=False)
"""Stands for the floor, which the policy does not need and a fault would spoil."""

OF_A_MODEL: Final = "decoder."
"""How the operations begin that need a model."""

_CACHED: Final = type(lru_cache(len))


@dataclass(frozen=True)
class Observation:
    """What the checks of one workload said.

    Attributes:
        workload: the suite, and what was asked.
        failed: names of checks with a case that failed, sorted.
        errored: names of checks that met a crash, sorted.
        blocked: names of checks whose prerequisite did not pass, sorted.
        passed: names of all other checks that said something, sorted.
        cases: the checks that failed, with their cases, sorted; such as `tok.fit[tie]`.
    """

    workload: Workload
    failed: tuple[str, ...]
    errored: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    cases: tuple[str, ...] = field(default=(), compare=False)


def observe(slug: str, workload: Workload) -> Observation:
    """Judge the reference with a fault, or, without a slug, as it is.

    Raises:
        FaultError (unknown-fault): there is none of this slug.
        `unknown-suite`, GoldenError: the workload is none.
    """
    _forget_models()
    suite = find_suite(workload.suite)
    held = HeldFault(fault_named(slug)) if slug else None
    question = _question(suite, workload.way)
    evidence = _Unmeasured(WrongBackend(held), question)
    outcomes: dict[str, set[Outcome]] = defaultdict(set)
    cases: list[str] = []
    with threadpool_limits(1), _nothing_drawn(workload.way):
        for verdict in judge_suite(suite, evidence, _selected(suite, workload.way, question, held)):
            outcomes[_name(verdict.check)].add(verdict.outcome)
            if verdict.outcome in FAILED:
                cases.append(verdict.check.partition("::")[2])
    _forget_models()
    return replace(_observation(workload, outcomes), cases=tuple(sorted(cases)))


@contextmanager
def _nothing_drawn(way: Way) -> Iterator[None]:
    """Leave out drawing where all weights are given: models are drawn and then read over, a dozen times a workload."""
    patch = Patch()
    try:
        if way is Way.GIVEN:
            patch.replace(initialization.xavier_uniform, _zeros)
        yield
    finally:
        patch.suspend()


def _zeros(name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> Parameter:
    return Parameter(name, np.zeros((fan_in, fan_out)))


class _Unmeasured(Evidence):
    """The evidence of a backend whose rounding is known to be that of the reference."""

    def _floor_of(self, given: GivenModel) -> NoiseFloor:
        return UNMEASURED


def _question(suite: Suite, way: Way) -> Question:
    arithmetic = "strict" if way is Way.EXACT or suite.identifier == QUICK else "fast"
    profile = None if way is Way.RUN else "edges"
    policy = Policy() if arithmetic == "strict" else ALLOWED
    options = Options(arithmetic=arithmetic, profile=profile, policy=policy)
    question = question_for(suite, GoldenStore(locate()), options)
    if way is not Way.EXACT:
        return question
    cases = tuple(case for case in question.vectors.cases if not case.operation.startswith(OF_A_MODEL))
    vectors = write_vectors(suite.identifier, suite.version, cases)
    return replace(question, request=replace(question.request, vectors=vectors))


def _selected(suite: Suite, way: Way, question: Question, held: HeldFault | None) -> Callable[[str], bool]:
    """Return which full ids are judged."""
    if way is Way.EXACT:
        asked = {f"{case.check}[{case.case}]" for case in question.vectors.cases} | ALWAYS
        return lambda identifier: identifier.partition("::")[2] in asked or _name(identifier) in OF_ANSWERS
    names = ALWAYS | {check.name for check in suite.checks if check.of_edges == (way is Way.GIVEN)}
    if suite.identifier != QUICK:
        names -= SLOW
    if held is not None and not held.fault.places & RESUMED:
        names -= CHECKPOINTS
    return lambda identifier: _name(identifier) in names


def _name(identifier: str) -> str:
    """Return the name of the check in a full id."""
    return identifier.partition("::")[2].partition("[")[0]


def _observation(workload: Workload, outcomes: dict[str, set[Outcome]]) -> Observation:
    found: dict[str, list[str]] = {"failed": [], "errored": [], "blocked": [], "passed": []}
    for name, several in sorted(outcomes.items()):
        if several & FAILED:
            found["failed"].append(name)
        elif Outcome.ERRORED in several:
            found["errored"].append(name)
        elif Outcome.BLOCKED in several:
            found["blocked"].append(name)
        elif several != {Outcome.SKIPPED}:
            found["passed"].append(name)
    return Observation(workload, **{kind: tuple(names) for kind, names in found.items()})


def _forget_models() -> None:
    """Empty what this program has computed so far: models may have been made under another fault."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cai_conformance."):
            for value in list(vars(module).values()):
                if isinstance(value, _CACHED):
                    value.cache_clear()
