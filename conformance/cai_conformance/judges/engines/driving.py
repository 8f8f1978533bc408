"""What the judges that drive engines share: the model in its engine, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.path import EngineSession
from cai_conformance.judges.engines.comparing import EXACT_ARITHMETIC, reshaped
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.measuring.floor import NoiseFloor
from cai_conformance.probing.facts import facts_of
from cai_conformance.probing.probe import Probe, Rounding
from cai_conformance.probing.starts import bounded_starts
from cai_conformance.probing.suite_model import SuiteModel
from cai_reference.arithmetic import Array

UNDRIVEN: Final = "the backend cannot be driven call by call"
UNTRAINED: Final = "the engine does not train"

Judge: TypeAlias = Callable[[Evidence], tuple[Finding, ...]]
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
        AnswerOutOfShape, EngineError: the engine failed.
    """
    return np.stack(session.feed(ids))


def fed_by(session: EngineSession, ids: Sequence[int], cuts: Sequence[int]) -> Array:
    """Feed tokens in several calls, cut before the given places, and return the logits behind all of them.

    Raises:
        AnswerOutOfShape, EngineError: the engine failed.
    """
    bounds = [0, *cuts, len(ids)]
    parts = [fed(session, ids[first:last]) for first, last in pairwise(bounds)]
    return np.concatenate(parts, axis=1)
