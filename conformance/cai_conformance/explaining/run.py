"""Why the losses of a whole run are wrong: the first reported step that differs, and which mistake gives it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cai_conformance.backends.decoder.training import prepare
from cai_conformance.diagnosis import Diagnosis, Losses, Run, run_findings
from cai_conformance.diagnosis.diagnosis import diagnosis_of_run
from cai_conformance.judges.evidence import Evidence
from cai_conformance.trace.records import Trace
from cai_conformance.verdicts import Verdict

PRINTED: Final = 1.1e-6
"""How far apart two losses may be that print alike or beside each other."""


def explain_run(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Explain the LOSS records by training the reference again, with one mistake at a time.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
        FixtureError: the suite's own stories cannot be prepared.
    """
    given, golden = evidence.question.given, evidence.question.golden
    if given is None or golden is None:
        return Diagnosis()
    run = Run(given.phase, given.sizes, prepare(given.sizes, b""))
    expected = _losses(golden, [record.integer("step") for record in golden.all("LOSS")])
    finding = run_findings(run, expected, _losses(evidence.main, expected), PRINTED)
    return Diagnosis() if finding is None else diagnosis_of_run(finding)


def _losses(trace: Trace, steps: Iterable[int]) -> dict[int, Losses]:
    """Return the losses after some steps; a trace may have very many others."""
    found = {step: trace.find("LOSS", step=step) for step in steps}
    return {
        step: Losses(record.real("train"), record.real("validation"))
        for step, record in found.items()
        if record is not None
    }
