"""The given model of a suite in the engine of its backend, under probe; or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.backends.engine.files import answered_tensors
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.checks.check import Judge
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.facts import facts_of
from cai_conformance.checks.probe.probe import Probe, Rounding, bounded_starts
from cai_conformance.checks.rows import EXACT_ARITHMETIC, reshaped
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.engine import Description, Engine, Loaded
from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Array


@dataclass(frozen=True)
class SuiteModel:
    """What a suite opened, with its tensors by the reference's names."""

    opened: OpenedModel

    @property
    def engine(self) -> Engine:
        """What is driven."""
        return self.opened.engine

    @property
    def description(self) -> Description:
        """Who the engine is."""
        return self.opened.description

    @property
    def tensors(self) -> Tensors:
        """The given values."""
        return self.opened.given.tensors

    def load(self) -> Loaded:
        """Have the model loaded.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        return self.opened.load()

    def forget(self) -> None:
        """Load anew at the next call."""
        self.opened.forget()

    def changed(
        self, name: str, values: Tensors | None = None, precision: str | None = None
    ) -> AbstractContextManager[None]:
        """Let `load` mean a changed model for a while."""
        return self.opened.changed(name, values, precision)

    def by_name(self, found: Tensors) -> Tensors:
        """Return tensors by the reference's names.

        Raises:
            EngineError (answer-out-of-shape): some are missing, unknown or of another shape.
        """
        layout = self.opened.given.phase.weights_layout
        return answered_tensors(layout, found, self.tensors, self.description.name)


UNDRIVEN: Final = "the backend cannot be driven call by call"
UNTRAINED: Final = "the engine does not train"

ProbeJudge: TypeAlias = Callable[[Probe], tuple[Finding, ...]]


def driven(judge: Callable[[Evidence, OpenedModel], tuple[Finding, ...]]) -> Judge:
    """Return a judge that is skipped where there is no engine."""

    def judged(evidence: Evidence) -> tuple[Finding, ...]:
        opened = evidence.opened
        return (Finding.skipped(UNDRIVEN),) if opened is None else judge(evidence, opened)

    return judged


def probing(judge: ProbeJudge) -> Judge:
    """Return the judge of a suite's given model that a judge of probes is."""
    return driven(lambda evidence, opened: probed(judge, probe_of(evidence, opened)))


def probed(judge: ProbeJudge, probe: Probe) -> tuple[Finding, ...]:
    """Judge a model that is loaded: what measures rounding loads others, so it comes first.

    Raises:
        EngineError: the engine failed.
    """
    probe.model.load()
    reshaped(probe)
    probe.model.load()
    return judge(probe)


def probe_of(evidence: Evidence, opened: OpenedModel) -> Probe:
    """Return the given model of a suite under probe."""
    return evidence.remembered("probe", lambda: _probe_of(evidence, opened))


def _probe_of(evidence: Evidence, opened: OpenedModel) -> Probe:
    def of_calls() -> NoiseFloor:
        floor = evidence.floor
        assert floor is not None, "an opened model is a given one"
        return floor

    def of_starts() -> NoiseFloor:
        exact = opened.description.arithmetic == EXACT_ARITHMETIC
        return bounded_starts(opened.description.precision.coarsest) if exact else of_calls()

    rounding = Rounding(of_calls, of_starts, lambda: evidence.floor_used)
    return Probe(SuiteModel(opened), facts_of(opened.given), evidence.question.policy, rounding, evidence)


def fed(session: EngineSession, ids: Sequence[int]) -> Array:
    """Feed tokens in one call, and return the logits [heads, tokens, vocabulary] behind each of them.

    Raises:
        `answer-out-of-shape`, EngineError: the engine failed.
    """
    return np.stack(session.feed(ids))


def fed_by(session: EngineSession, ids: Sequence[int], cuts: Sequence[int]) -> Array:
    """Feed tokens in several calls, cut before the given places, and return the logits behind all of them.

    Raises:
        `answer-out-of-shape`, EngineError: the engine failed.
    """
    bounds = [0, *cuts, len(ids)]
    parts = [fed(session, ids[first:last]) for first, last in pairwise(bounds)]
    return np.concatenate(parts, axis=1)
