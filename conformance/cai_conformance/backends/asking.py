"""Asking a backend, which is foreign code: whatever it does wrong becomes an error with its name.

A backend that hangs inside this process cannot be stopped from here; whoever may hang should answer from a process.
"""

from __future__ import annotations

from collections.abc import Callable

from cai_conformance.backends.errors import BackendCrashed, one_line
from cai_conformance.backends.protocol import Backend, TraceRequest
from cai_conformance.errors import BackendError, FixtureError


def ask(backend: Backend, request: TraceRequest) -> bytes:
    """Return the bytes of the trace that is asked for.

    Raises:
        NotOffered: the backend does not answer this request.
        BackendCrashed: it raised, tried to end the program, or returned something else than bytes.
        BackendError, FixtureError: it says so itself.
    """
    return _answer(backend, backend.trace, request)


def ask_again(backend: Backend, request: TraceRequest) -> bytes:
    """Return the bytes of a second run.

    Raises:
        BackendError, FixtureError: as `ask`.
    """
    return _answer(backend, backend.replay, request)


def own_arithmetic(backend: Backend) -> str | None:
    """Return the arithmetic that a backend says it answers in, where it has one of its own.

    One that fails to say so fails again when it is asked something, and is judged then.
    """
    try:
        stated = getattr(backend, "arithmetic", None)
    except BackendError:
        return None
    return stated if isinstance(stated, str) else None


def _answer(backend: Backend, method: Callable[[TraceRequest], object], request: TraceRequest) -> bytes:
    try:
        answer = method(request)
    except (BackendError, FixtureError):
        raise
    except (Exception, SystemExit) as error:
        raise BackendCrashed(backend.name, one_line(error)) from error
    if not isinstance(answer, bytes):
        raise BackendCrashed(backend.name, f"its answer is of the type {type(answer).__name__}, not bytes")
    return answer
