"""The reference as a backend: it answers every suite, in this process or in a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

import cai_reference
from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.backends.engine.stages import record_stages, records_of, staged_ids
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest, spell
from cai_conformance.backends.reference.decoder_answers import GivenReference
from cai_conformance.backends.reference.decoder_records import trace_records as decoder_records
from cai_conformance.backends.reference.decoder_run import run_decode_experiment
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.backends.reference.ngram_answers import NgramSetting
from cai_conformance.backends.reference.ngram_answers import answer as ngram_answer
from cai_conformance.backends.reference.ngram_records import trace_records as ngram_records
from cai_conformance.backends.reference.ngram_run import CONVENTIONS, run_experiment
from cai_conformance.errors import BackendError
from cai_conformance.fixtures.decoder_phases import phase_of, sizes_for
from cai_conformance.fixtures.given_weights import read_given
from cai_conformance.fixtures.vectors import Answers, VectorCase, read_vectors
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.grammars.decoder import SUITES as DECODE_SUITES
from cai_conformance.trace.records import Envelope, Record
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import named

WORKER_SECONDS: Final = 3600
"""How long a run in a fresh process may take before it counts as hung."""

NGRAM: Final = "course.ngram"


class ReferenceBackend:
    """The oracle, judged like any other backend.

    With `isolated`, experiments run in processes of their own, so that several may run at once.
    """

    name = "reference"

    def __init__(self, *, isolated: bool = False) -> None:
        self.concurrent = isolated

    def trace(self, request: TraceRequest) -> bytes:
        """Answer a request with one BLAS thread, in this process or in an isolated one.

        Raises:
            NotOffered: the suite is not one of the reference's.
            FixtureError: the experiment stopped.
            ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
            BackendError (backend-crashed): an isolated process failed.
        """
        self._check(request)
        vectors = read_vectors(request.vectors)
        if request.profile == "edges":
            return spell(self, request, self.answer_cases(request), vectors.digest)
        if self.concurrent:
            return self._in_fresh_process(request, dict(os.environ))
        arithmetic = named(request.arithmetic)
        envelope = Envelope(
            request.suite, request.suite_version, request.profile, arithmetic.identifier, vectors.digest
        )
        with threadpool_limits(1):
            records = _records(request, arithmetic, vectors.cases)
        return format_trace(envelope, records).encode("utf-8")

    def answer_cases(self, request: TraceRequest) -> Answers:
        """Answer the vector cases with one BLAS thread, in this process; a model is asked as an engine.

        Raises:
            NotOffered: the suite is not one of the reference's.
            ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
            CaiReferenceError: it cannot compute an answer.
        """
        self._check(request)
        arithmetic, cases = named(request.arithmetic), read_vectors(request.vectors).cases
        with threadpool_limits(1):
            if request.suite == NGRAM:
                setting = NgramSetting(arithmetic, request.weights)
                by_case = {case.identifier: ngram_answer(case, setting) for case in cases}
                return Answers(arithmetic.identifier, dict(CONVENTIONS), by_case)
            phase = phase_of(request.suite)
            given = GivenModel(phase, sizes_for(phase, "golden", 0), request.weights)
            reference = GivenReference(given, arithmetic)
            by_case = {case.identifier: reference.answer(case) for case in cases}
            return Answers(arithmetic.identifier, dict(phase.conventions(given.sizes)), by_case)

    def opened(self, request: TraceRequest) -> OpenedModel | None:
        """Return the reference as an engine with the model of a request; None where the suite gives no model."""
        given = GivenModel.of(request)
        if given is None:
            return None
        return OpenedModel(ReferenceEngine(named(request.arithmetic), given.sizes.slack), given)

    def replay(self, request: TraceRequest) -> bytes:
        """Answer a request in a fresh interpreter, with another hash seed and two BLAS threads where this one has one.

        Raises:
            BackendError (backend-crashed): the interpreter failed, or took longer than `WORKER_SECONDS`.
        """
        environment = dict(os.environ)
        environment["PYTHONHASHSEED"] = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = "1" if os.environ.get(variable) == "2" else "2"
        return self._in_fresh_process(request, environment)

    def _check(self, request: TraceRequest) -> None:
        if request.suite not in (NGRAM, *DECODE_SUITES):
            raise NotOffered(self.name, request.suite, "the reference has no such suite")

    def _in_fresh_process(self, request: TraceRequest, environment: dict[str, str]) -> bytes:
        roots = [*map(str, _source_roots()), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(roots)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "cai_conformance.backends.worker"],
                input=request.to_json().encode("utf-8"),
                capture_output=True,
                env=environment,
                timeout=WORKER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BackendError(
                "backend-crashed", backend=self.name, problem=f"a run took longer than {WORKER_SECONDS} s"
            ) from None
        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise BackendError(
                "backend-crashed",
                backend=self.name,
                problem=f"a run in a fresh process ended with exit code {done.returncode}: {last[0]}",
            )
        return done.stdout


def _records(request: TraceRequest, arithmetic: Arithmetic, cases: Sequence[VectorCase]) -> tuple[Record, ...]:
    """Run the experiment of a suite, or show all stages of one pass on given weights."""
    if request.suite == NGRAM:
        return ngram_records(run_experiment(request.corpus, request.splits, arithmetic))
    if request.profile != "stages":
        run = run_decode_experiment(request.suite, request.profile, request.examples, request.corpus, arithmetic)
        return decoder_records(run)
    phase = phase_of(request.suite)
    sizes = sizes_for(phase, "golden", 0)
    stages = record_stages(read_given(phase, sizes, request.weights), staged_ids(cases), arithmetic)
    values = records_of({stage.name: stage.value for stage in stages})
    return (Record("CONVENTION", phase.conventions(sizes)), *values)


def _source_roots() -> list[Path]:
    """Return where the two packages were imported from, so that a fresh interpreter finds the same ones."""
    return [Path(cai_reference.__file__ or "").resolve().parents[1], Path(__file__).resolve().parents[3]]
