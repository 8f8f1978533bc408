"""What a program that prints traces is given: a folder with everything that a request holds.

A program that prints traces: it is called once for each.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final

from cai_conformance.backends.engine.given_model import model_folder
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.serve.process import Child
from cai_conformance.backends.serve.streams import ErrorTail, Spool
from cai_conformance.errors import BackendError
from cai_conformance.fixtures.vectors import read_vectors
from cai_conformance.verdicts import WALL

VECTORS = "vectors.json"
REQUEST = "request.json"


def request_files(request: TraceRequest) -> dict[str, bytes]:
    """Return the files of a request, by name."""
    corpus = {"corpus.txt": request.corpus, "splits.json": request.splits}
    return {
        **model_folder(request),
        **{name: data for name, data in corpus.items() if data},
        VECTORS: request.vectors,
        REQUEST: _request(request),
    }


def write_request(request: TraceRequest, folder: Path) -> None:
    """Write the files of a request into a folder."""
    for name, data in request_files(request).items():
        (folder / name).write_bytes(data)


def _request(request: TraceRequest) -> bytes:
    stated = {
        "suite": request.suite,
        "suite_version": request.suite_version,
        "profile": request.profile,
        "arithmetic": request.arithmetic,
        "vectors": read_vectors(request.vectors).digest,
        "examples": request.examples,
    }
    return (json.dumps(stated, indent=1) + "\n").encode("utf-8")


SECONDS: Final = 600.0
"""How long a trace may take."""

TRACE_BYTES: Final = 256 << 20
"""How large a trace may be."""

NOT_OFFERED: Final = 3
"""The exit code of a program that does not offer a trace."""

_SETTLE_SECONDS: Final = 2.0


class ExecBackend:
    """A backend that calls `program … trace SUITE --vectors DIR --profile P --arithmetic A`."""

    # Every call is a process of its own.
    concurrent = True

    def __init__(
        self, command: str | Sequence[str], *, seconds: float = SECONDS, limit: int = TRACE_BYTES, name: str = ""
    ) -> None:
        """Take a command; nothing is started yet.

        Args:
            command: a program with its arguments, as a list or as one would type it.
            seconds: how long a trace may take.
            limit: how many bytes a trace may have.
            name: what reports call it; `exec:` and the command if empty.
        """
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        self.name = name or f"exec:{shlex.join(self._command)}"
        self._seconds = seconds
        self._limit = limit

    def trace(self, request: TraceRequest) -> bytes:
        """Call the program.

        Raises:
            NotOffered: it says so by its exit code.
            BackendError (backend-crashed): it ended with another one or by a signal, took too long, or printed too
                much.
        """
        return self._call(request, None)

    def replay(self, request: TraceRequest) -> bytes:
        """Call the program again, with another hash seed and another number of threads in its environment.

        Raises:
            NotOffered, `backend-crashed`: as `trace`.
        """
        environment = dict(os.environ)
        environment["PYTHONHASHSEED"] = "1" if environment.get("PYTHONHASHSEED") != "1" else "2"
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = "1" if environment.get(variable) == "2" else "2"
        return self._call(request, environment)

    def _call(self, request: TraceRequest, environment: Mapping[str, str] | None) -> bytes:
        if not self._command:
            raise BackendError("backend-crashed", backend=self.name, problem="no program is named")
        with TemporaryDirectory(prefix="cai-conform-exec-", ignore_cleanup_errors=True) as folder:
            write_request(request, Path(folder))
            asked = ["trace", request.suite, "--vectors", folder, "--profile", request.profile]
            return self._run([*self._command, *asked, "--arithmetic", request.arithmetic], request, environment)

    def _run(self, command: Sequence[str], request: TraceRequest, environment: Mapping[str, str] | None) -> bytes:
        with TemporaryFile() as trace:
            try:
                child = Child(command, environment)
            except OSError as error:
                raise BackendError(
                    "backend-crashed", backend=self.name, problem=f"it cannot be started: {error.strerror or error}"
                ) from None
            child.stdin.close()
            output, tail = Spool(child.stdout, trace, self._limit), ErrorTail(child.stderr)
            try:
                deadline = WALL() + self._seconds
                ended = output.finished(self._seconds) and not output.overflowed
                # A program may close its output a little before it ends.
                ended = ended and child.wait(max(deadline - WALL(), _SETTLE_SECONDS))
            finally:
                child.end()
                output.join()
                tail.join()
            if not ended or output.problem:
                raise BackendError(
                    "backend-crashed", backend=self.name, problem=self._with_words(self._what_was_wrong(output), tail)
                )
            if child.code == NOT_OFFERED:
                reason = (tail.lines() or ["it does not say why"])[-1]
                raise NotOffered(self.name, f"{request.suite} ({request.profile})", reason)
            if child.code != 0:
                raise BackendError(
                    "backend-crashed", backend=self.name, problem=self._with_words(f"it {child.how_it_ended()}", tail)
                )
            trace.seek(0)
            return trace.read()

    def _what_was_wrong(self, output: Spool) -> str:
        if output.overflowed:
            return f"it printed more than {self._limit} bytes"
        return output.problem or f"it did not end within {self._seconds:g} s"

    @staticmethod
    def _with_words(problem: str, tail: ErrorTail) -> str:
        words = tail.text()
        return problem + (f"; its last words on standard error: {words}" if words else "")
