"""The reference as a backend: it answers every suite, in this process or in a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from cai_conformance.backends.errors import BackendCrashed, NotOffered
from cai_conformance.backends.ngram.conventions import CONVENTIONS
from cai_conformance.backends.ngram.edges import Setting, answer
from cai_conformance.backends.ngram.experiment import run_experiment
from cai_conformance.backends.ngram.records import trace_records
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.trace.formatting import format_trace
from cai_conformance.trace.records import Envelope, Record
from cai_conformance.vectors import read_vectors
from cai_reference.arithmetic import named

REPLAY_SECONDS: Final = 600
"""How long a replay may take before it counts as hung."""


class ReferenceBackend:
    """The oracle, judged like any other backend."""

    name = "reference"

    def trace(self, request: TraceRequest) -> bytes:
        """Answer a request in this process, with one BLAS thread.

        Raises:
            NotOffered: the suite is not one of the reference's.
            FixtureError: the experiment stopped.
            UnknownArithmetic: the arithmetic has another name.
        """
        if request.suite != "course.ngram":
            raise NotOffered(self.name, request.suite, "the reference has no such suite")
        arithmetic = named(request.arithmetic)
        vectors = read_vectors(request.vectors)
        envelope = Envelope(
            request.suite, request.suite_version, request.profile, arithmetic.identifier, vectors.digest
        )
        with threadpool_limits(1):
            if request.profile == "edges":
                setting = Setting(arithmetic, request.weights)
                samples = [answer(case, setting).record(case.identifier) for case in vectors.cases]
                records = (Record("CONVENTION", CONVENTIONS), *samples)
            else:
                records = trace_records(run_experiment(request.corpus, request.splits, arithmetic))
        return format_trace(envelope, records).encode("utf-8")

    def replay(self, request: TraceRequest) -> bytes:
        """Answer a request in a fresh interpreter, with another hash seed and two BLAS threads where this one has one.

        Raises:
            BackendCrashed: the interpreter failed, or took longer than `REPLAY_SECONDS`.
        """
        environment = dict(os.environ)
        environment["PYTHONHASHSEED"] = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = "1" if os.environ.get(variable) == "2" else "2"
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, _source_roots()), environment.get("PYTHONPATH", "")])
        try:
            done = subprocess.run(
                [sys.executable, "-m", "cai_conformance.worker"],
                input=request.to_json().encode("utf-8"),
                capture_output=True,
                env=environment,
                timeout=REPLAY_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BackendCrashed(self.name, f"the replay took longer than {REPLAY_SECONDS} s") from None
        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise BackendCrashed(self.name, f"the replay ended with exit code {done.returncode}: {last[0]}")
        return done.stdout


def _source_roots() -> list[Path]:
    """Return where the two packages were imported from, so that a fresh interpreter finds the same ones."""
    import cai_reference

    packages = [Path(cai_reference.__file__ or ""), Path(__file__).parent]
    return [package.resolve().parent.parent for package in packages]
