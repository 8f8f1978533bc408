"""From a request about a decode suite to the records of the reference's answer."""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.decoder.edges import answer
from cai_conformance.backends.decoder.experiment import run_decode_experiment
from cai_conformance.backends.decoder.plan import phase_of, sizes_for
from cai_conformance.backends.decoder.records import trace_records
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.backends.decoder.stages import record_stages, records_of, staged_ids
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase
from cai_reference.arithmetic import Arithmetic

GIVEN_PROFILES: Final = ("edges", "stages")
"""The profiles that are about given weights; no run is made for them."""


def records_for(request: TraceRequest, arithmetic: Arithmetic, cases: tuple[VectorCase, ...]) -> tuple[Record, ...]:
    """Answer the vector cases, show all stages of one pass on given weights, or run the experiment.

    Raises:
        FixtureError: the experiment stopped.
    """
    if request.profile in GIVEN_PROFILES:
        phase = phase_of(request.suite)
        sizes = sizes_for(phase, "golden", 0)
        setting = DecoderSetting(phase, sizes, arithmetic, request.weights)
        if request.profile == "edges":
            records = [answer(case, setting).record(case.identifier) for case in cases]
        else:
            stages = record_stages(setting.model(), staged_ids(cases), arithmetic)
            records = records_of({stage.name: stage.value for stage in stages})
        return (Record("CONVENTION", phase.conventions(sizes)), *records)
    experiment = run_decode_experiment(request.suite, request.profile, request.examples, request.corpus, arithmetic)
    return trace_records(experiment)
