"""One fault in one vehicle: which checks fail, and which cannot say anything."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from cai_conformance.engines.given_model import GivenModel
from cai_conformance.faults import HeldFault, Place, Planting, Vehicle, Way, fault_named
from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.judges.evidence import Evidence, Question
from cai_conformance.killing.backend import WrongBackend
from cai_conformance.measuring.floor import FloorSource, Level, NoiseFloor
from cai_conformance.measuring.policy import Policy, PolicyKind
from cai_conformance.questions import Options, question_for
from cai_conformance.runner import judge_suite
from cai_conformance.suites import find_suite
from cai_conformance.suites.suite import Suite
from cai_conformance.vectors import write_vectors
from cai_conformance.verdicts import Outcome
from cai_reference.autograd import Parameter
from cai_reference.layers import initialization
from cai_reference.splitmix import SplitMix64

ALLOWED: Final = Policy(PolicyKind.ULP, 1e6)
"""What a backend may be off in fast arithmetic: some 1e-10 of a row's largest logit, far below every fault."""

ALWAYS: Final = frozenset({"trace.format", "trace.convention"})
"""Checks that are asked in every way."""

OF_ANSWERS: Final = frozenset({"init.stats"})
"""Checks that look at answers to vector cases which name another check."""

SLOW: Final = frozenset({"run.replay"})
"""Checks that need a second run, which is asked of the quickest suite alone."""

CHECKPOINTS: Final = frozenset({"ckpt.roundtrip", "ckpt.resume", "ckpt.strict"})
"""Checks that train and resume for each of their cases, which take a fifth of the time of all."""

RESUMED: Final = frozenset({Place.TRAINING, Place.LOADING, Place.CHECKPOINT})
"""Where a fault has to act for a checkpoint to show it."""

QUICK: Final = "course.ngram"

FAILED: Final = frozenset({Outcome.FAIL, Outcome.XPASS})

NOT_MEASURED: Final = Level((FloorSource("not measured", 0.0, 0.0),))
UNMEASURED: Final = NoiseFloor("float64", NOT_MEASURED, NOT_MEASURED, measured=False)
"""Stands for the floor, which the policy does not need and a fault would spoil."""

OF_A_MODEL: Final = "decoder."
"""How the operations begin that need a model."""

_CACHED: Final = type(lru_cache(len))


@dataclass(frozen=True)
class Observation:
    """What the checks of one vehicle said.

    Attributes:
        vehicle: the suite, and what was asked.
        failed: names of checks with a case that failed, sorted.
        errored: names of checks that met a crash, sorted.
        blocked: names of checks whose prerequisite did not pass, sorted.
        passed: names of all other checks that said something, sorted.
    """

    vehicle: Vehicle
    failed: tuple[str, ...]
    errored: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


def observe(slug: str, vehicle: Vehicle) -> Observation:
    """Judge the reference with a fault, or, without a slug, as it is.

    Raises:
        UnknownFault: there is none of this slug.
        UnknownSuite, GoldenError: the vehicle is none.
    """
    _forget_models()
    suite = find_suite(vehicle.suite)
    held = HeldFault(fault_named(slug)) if slug else None
    question = _question(suite, vehicle.way)
    evidence = _Unmeasured(WrongBackend(held), question)
    outcomes: dict[str, set[Outcome]] = defaultdict(set)
    with threadpool_limits(1), _nothing_drawn(vehicle.way):
        for verdict in judge_suite(suite, evidence, _selected(suite, vehicle.way, question, held)):
            outcomes[_name(verdict.check)].add(verdict.outcome)
    _forget_models()
    return _observation(vehicle, outcomes)


@contextmanager
def _nothing_drawn(way: Way) -> Iterator[None]:
    """Leave out drawing where all weights are given: models are drawn and then read over, a dozen times a vehicle."""
    planting = Planting()
    try:
        if way is Way.GIVEN:
            planting.function(initialization.xavier_uniform, _zeros)
        yield
    finally:
        planting.suspend()


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


def _observation(vehicle: Vehicle, outcomes: dict[str, set[Outcome]]) -> Observation:
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
    return Observation(vehicle, **{kind: tuple(names) for kind, names in found.items()})


def _forget_models() -> None:
    """Empty what this program has computed so far: models may have been made under another fault."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cai_conformance."):
            for value in list(vars(module).values()):
                if isinstance(value, _CACHED):
                    value.cache_clear()
