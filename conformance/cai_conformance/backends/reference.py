"""The reference as a backend: it answers every suite, in this process or in a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from cai_conformance.backends.decoder import answers as decoder_answers
from cai_conformance.backends.errors import BackendCrashed, NotOffered
from cai_conformance.backends.ngram import answers as ngram_answers
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.engines.given_model import GivenModel
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.reference_engine import ReferenceEngine
from cai_conformance.trace.formatting import format_trace
from cai_conformance.trace.grammars.decoder import SUITES as DECODE_SUITES
from cai_conformance.trace.records import Envelope, Record
from cai_conformance.vectors import VectorCase, read_vectors
from cai_reference.arithmetic import Arithmetic, named

WORKER_SECONDS: Final = 3600
"""How long a run in a fresh process may take before it counts as hung."""

Answer = Callable[[TraceRequest, Arithmetic, tuple[VectorCase, ...]], tuple[Record, ...]]

ANSWERS: Final[Mapping[str, Answer]] = {
    "course.ngram": ngram_answers.records_for,
    **dict.fromkeys(DECODE_SUITES, decoder_answers.records_for),
}


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
            UnknownArithmetic: the arithmetic has another name.
            BackendCrashed: an isolated process failed.
        """
        if request.suite not in ANSWERS:
            raise NotOffered(self.name, request.suite, "the reference has no such suite")
        if self.concurrent and request.profile != "edges":
            return self._in_fresh_process(request, dict(os.environ))
        arithmetic = named(request.arithmetic)
        vectors = read_vectors(request.vectors)
        envelope = Envelope(
            request.suite, request.suite_version, request.profile, arithmetic.identifier, vectors.digest
        )
        with threadpool_limits(1):
            records = ANSWERS[request.suite](request, arithmetic, vectors.cases)
        return format_trace(envelope, records).encode("utf-8")

    def opened(self, request: TraceRequest) -> OpenedModel | None:
        """Return the reference as an engine with the model of a request; None where the suite gives no model."""
        given = GivenModel.of(request)
        if given is None:
            return None
        return OpenedModel(ReferenceEngine(named(request.arithmetic), given.sizes.slack), given)

    def replay(self, request: TraceRequest) -> bytes:
        """Answer a request in a fresh interpreter, with another hash seed and two BLAS threads where this one has one.

        Raises:
            BackendCrashed: the interpreter failed, or took longer than `WORKER_SECONDS`.
        """
        environment = dict(os.environ)
        environment["PYTHONHASHSEED"] = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = "1" if os.environ.get(variable) == "2" else "2"
        return self._in_fresh_process(request, environment)

    def _in_fresh_process(self, request: TraceRequest, environment: dict[str, str]) -> bytes:
        roots = [*map(str, _source_roots()), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(roots)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "cai_conformance.worker"],
                input=request.to_json().encode("utf-8"),
                capture_output=True,
                env=environment,
                timeout=WORKER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BackendCrashed(self.name, f"a run took longer than {WORKER_SECONDS} s") from None
        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise BackendCrashed(
                self.name, f"a run in a fresh process ended with exit code {done.returncode}: {last[0]}"
            )
        return done.stdout


def _source_roots() -> list[Path]:
    """Return where the two packages were imported from, so that a fresh interpreter finds the same ones."""
    import cai_reference

    packages = [Path(cai_reference.__file__ or ""), Path(__file__).parent]
    return [package.resolve().parent.parent for package in packages]
