"""What the tests of probes share: the reference in fast arithmetic under probe, with a mistake or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import probe_of, probed
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import SelfCheck
from cai_conformance.engine import Engine, Evaluated, Feature, Piece, Refused
from cai_conformance.faults import fault_named
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Outcome
from support_engines import SUITE, Wrapped, evidence_with, floor_of, opened_in, question

NEAR, FAR = 8.0, 128.0
"""Units of float64 that rounding explains: calls and sums of the fast arithmetic differ by as many at most."""


def under_probe(engine: Engine, suite: str = SUITE, policy: str = "auto") -> Probe:
    """Return the model that a suite ships, in an engine, under probe."""
    opened = opened_in(engine, suite)
    asked = question(suite, policy, engine.description.arithmetic)
    return probe_of(evidence_with(asked, {}, floor_of(NEAR, FAR), opened), opened)


def check_named(name: str) -> SelfCheck:
    """Return a check of self-consistency."""
    return next(check for check in SELF_CHECKS if check.name == name)


def findings(name: str, engine: Engine, suite: str = SUITE, policy: str = "auto") -> tuple[Finding, ...]:
    """Return what one check finds about an engine."""
    return probed(check_named(name).judge, under_probe(engine, suite, policy))


def outcomes(name: str, engine: Engine, suite: str = SUITE, policy: str = "auto") -> dict[str, Outcome]:
    """Return the outcomes of one check by its cases."""
    return {finding.case: finding.outcome for finding in findings(name, engine, suite, policy)}


def outcomes_with(slug: str, name: str, suite: str = SUITE) -> dict[str, Outcome]:
    """Return the outcomes of one check about the reference with a seeded fault."""
    with fault_named(slug).planted():
        return outcomes(name, Wrapped(), suite)


class Disturbed(Wrapped):
    """An engine with memory that can be poisoned, and calls that can be made to fail.

    Args:
        leaks: whether what memory was filled with shows in the next rows.
        keeps: whether a call that failed is remembered all the same.
        ignores: whether no call ever fails.
    """

    def __init__(self, *, leaks: bool = False, keeps: bool = False, ignores: bool = False, **stated: Any) -> None:
        super().__init__(**stated)
        features = self.description.features | {Feature.POISON, Feature.FAIL_AFTER}
        self.description = replace(self.description, features=features)
        self.poisons: list[float] = []
        self._leaks, self._keeps, self._ignores = leaks, keeps, ignores
        self._fails = False

    def poison(self, value: float) -> None:
        """Fill memory that no position owns; the reference has none, so only a leak shows it."""
        self.poisons.append(value)

    def fail_after(self, layers: int) -> None:
        """Let the next call fail."""
        self._fails = not self._ignores

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces, or fail."""
        if self._fails:
            self._fails = False
            if self._keeps:
                super().evaluate(pieces)
            raise Refused("disturbed", "a call", "it was told to fail")
        found = super().evaluate(pieces, observe=observe)
        if self._leaks and self.poisons:
            value = self.poisons[-1]
            found = tuple(
                replace(each, logits=each.logits + np.where(value == value, value * 1e-9, value)) for each in found
            )
        return found
