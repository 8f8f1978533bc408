"""The trace that a setting is judged by: that of the reference, with the exact bits in every arithmetic.

In `fast`, the reference states no bits: they mean nothing to another implementation. Between two runs of the reference
itself they do mean something, so they are kept here; every other field is as the reference prints it.

Recordings in a fresh process: a question as JSON on standard input, its facts and traces on standard output.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields, replace
from typing import Final

from threadpoolctl import threadpool_limits

from cai_conformance import strict_json
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference import decoder_records, ngram_records
from cai_conformance.backends.reference.decoder_run import run_decode_experiment
from cai_conformance.backends.reference.ngram_run import run_experiment
from cai_conformance.fixtures.vectors import read_vectors
from cai_conformance.run.portability.settings import gather
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.grammars.decoder import SUITES as DECODE_SUITES
from cai_conformance.trace.records import Envelope, Record
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import named

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
        ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
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


def main() -> None:
    """Answer the one question on standard input: `threads`, and `requests` as `TraceRequest.to_json` writes them."""
    question = strict_json.obj(strict_json.parse(sys.stdin.buffer.read()), ("threads", "requests"), "the question")
    threads = strict_json.count(question["threads"], "threads")
    requests = [strict_json.text(line, "a request") for line in strict_json.array(question["requests"], "requests")]
    facts = gather(threads)
    traces = [record_exactly(TraceRequest.from_json(line), threads).decode("utf-8") for line in requests]
    print(json.dumps({"facts": facts.texts, "traces": traces}))


if __name__ == "__main__":
    main()
