"""What the judges that drive engines share: the model in its engine, or why there is none; and drawn sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cai_conformance.backends.decoder.stages import staged_ids
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_reference.splitmix import SplitMix64, below

UNDRIVEN: Final = "the backend cannot be driven call by call"
FIRST_CONTENT: Final = 2
"""The first id that is no control token."""

Judge = Callable[[Evidence], tuple[Finding, ...]]


def driven(judge: Callable[[Evidence, OpenedModel], tuple[Finding, ...]]) -> Judge:
    """Return a judge that is skipped where there is no engine."""

    def judged(evidence: Evidence) -> tuple[Finding, ...]:
        opened = evidence.opened
        return (Finding.skipped(UNDRIVEN),) if opened is None else judge(evidence, opened)

    return judged


def probe_ids(evidence: Evidence) -> tuple[int, ...]:
    """Return the tokens of the suite's forward pass on given weights: longer than a window, some of them repeated."""
    return staged_ids(evidence.question.vectors.cases)


def drawn_ids(opened: OpenedModel, seed: int, count: int) -> tuple[int, ...]:
    """Return BOS and drawn content ids."""
    generator, vocabulary = SplitMix64(seed), opened.given.model.configuration.vocabulary
    return (0, *(FIRST_CONTENT + below(generator, vocabulary - FIRST_CONTENT) for _ in range(count - 1)))
