"""The five versions of a run, which every report states."""

from __future__ import annotations

from collections.abc import Iterable

from cai_conformance.backends.protocol import PROTOCOL_VERSION
from cai_conformance.runner import SuiteRun
from cai_conformance.trace.records import GRAMMAR
from cai_conformance.verdicts import Versions


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
