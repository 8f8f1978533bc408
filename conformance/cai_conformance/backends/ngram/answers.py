"""From a request about the neural n-gram to the records of the reference's answer."""

from __future__ import annotations

from cai_conformance.backends.ngram.conventions import CONVENTIONS
from cai_conformance.backends.ngram.edges import Setting, answer
from cai_conformance.backends.ngram.experiment import run_experiment
from cai_conformance.backends.ngram.records import trace_records
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase
from cai_reference.arithmetic import Arithmetic


def records_for(request: TraceRequest, arithmetic: Arithmetic, cases: tuple[VectorCase, ...]) -> tuple[Record, ...]:
    """Answer the vector cases, or run the experiment.

    Raises:
        FixtureError: the experiment stopped.
    """
    if request.profile == "edges":
        setting = Setting(arithmetic, request.weights)
        samples = [answer(case, setting).record(case.identifier) for case in cases]
        return (Record("CONVENTION", CONVENTIONS), *samples)
    return trace_records(run_experiment(request.corpus, request.splits, arithmetic))
