"""The trace that a setting is judged by: that of the reference, with the exact bits in every arithmetic.

In `fast`, the reference states no bits: they mean nothing to another implementation. Between two runs of the reference
itself they do mean something, so they are kept here; every other field is as the reference prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from threadpoolctl import threadpool_limits

from cai_conformance.backends.decoder import records as decoder_records
from cai_conformance.backends.decoder.experiment import run_decode_experiment
from cai_conformance.backends.ngram import records as ngram_records
from cai_conformance.backends.ngram.experiment import run_experiment
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.trace.formatting import format_trace
from cai_conformance.trace.grammars.decoder import SUITES as DECODE_SUITES
from cai_conformance.trace.records import Envelope, Record
from cai_conformance.vectors import read_vectors
from cai_reference.arithmetic import Arithmetic, named

WORDED: Final = "PROOF"
"""The kind of record whose words depend on whether bits are stated."""


@dataclass(frozen=True)
class _Exact(Arithmetic):
    """An arithmetic whose bits are stated, whatever they are worth."""

    @property
    def bitwise(self) -> bool:
        """Yes."""
        return True


def record_exactly(request: TraceRequest, threads: int) -> bytes:
    """Return the reference's trace of a run, with exact bits, computed with so many BLAS threads.

    Raises:
        FixtureError: the experiment stopped.
        UnknownArithmetic: the arithmetic has another name.
    """
    arithmetic = named(request.arithmetic)
    vectors = read_vectors(request.vectors)
    with threadpool_limits(threads):
        records = _records(request, arithmetic)
    envelope = Envelope(request.suite, request.suite_version, request.profile, arithmetic.identifier, vectors.digest)
    return format_trace(envelope, records).encode("utf-8")


def _records(request: TraceRequest, arithmetic: Arithmetic) -> tuple[Record, ...]:
    exact = _Exact(**{field.name: getattr(arithmetic, field.name) for field in fields(arithmetic)})
    if request.suite in DECODE_SUITES:
        decoded = run_decode_experiment(request.suite, request.profile, request.examples, request.corpus, arithmetic)
        printed = decoder_records.trace_records(decoded)
        stated = decoder_records.trace_records(replace(decoded, arithmetic=exact))
    else:
        trained = run_experiment(request.corpus, request.splits, arithmetic)
        printed = ngram_records.trace_records(trained)
        stated = ngram_records.trace_records(replace(trained, arithmetic=exact))
    worded = {record.key: record for record in printed if record.kind == WORDED}
    return tuple(worded.get(record.key, record) for record in stated)
