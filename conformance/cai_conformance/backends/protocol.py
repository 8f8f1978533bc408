"""What a suite asks and a backend answers, and asking it.

Everything that a request needs travels inside it, so that it can be answered in another process, or by another
program. A backend turns it into the bytes of a trace; one that is driven call by call answers vector cases without a
trace as well. A backend is foreign code: whatever it does wrong becomes an error with its name. One that hangs inside
this process cannot be stopped from here; whoever may hang should answer from a process.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, Protocol, TypeVar, runtime_checkable

from cai_conformance import strict_json
from cai_conformance.backends.errors import one_line
from cai_conformance.errors import BackendError, FixtureError, InputError
from cai_conformance.fixtures.vectors import Answers
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.records import Envelope

PROTOCOL_VERSION: Final = "1"
TEXTS: Final = ("suite", "suite_version", "profile", "arithmetic")
BINARY: Final = ("corpus", "splits", "vectors", "weights")
"""What of a request is text, and what is bytes, in the order of its fields."""


@dataclass(frozen=True)
class TraceRequest:
    """One trace that is asked for.

    Attributes:
        suite: the id, such as `course.ngram`.
        suite_version: the version that the trace states.
        profile: which of the suite's traces: `golden`, `published`, `foreign` or `edges`.
        arithmetic: the identifier, such as `strict/1`.
        corpus: the bytes of the corpus file, or of the user's stories; empty where stories are generated.
        splits: the bytes of the split manifest, for a corpus.
        vectors: the bytes of the suite's `vectors.json`.
        weights: the bytes of the suite's given weights; empty where no profile needs them.
        examples: how many training examples are seen, for a decode suite; 0 for the profile's own number.
    """

    suite: str
    suite_version: str
    profile: str
    arithmetic: str
    corpus: bytes
    splits: bytes
    vectors: bytes
    weights: bytes
    examples: int = 0

    def to_json(self) -> str:
        """Return the request as one line of JSON, bytes in base 64."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(
            {
                name: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
                for name, value in values.items()
            }
        )

    @classmethod
    def from_json(cls, line: str) -> TraceRequest:
        """Read what `to_json` wrote.

        Raises:
            InputError (input-unreadable): it is something else.
        """
        try:
            parsed = strict_json.parse(line.encode("utf-8", "surrogatepass"))
            values = strict_json.obj(parsed, (*TEXTS, *BINARY, "examples"), "it")
            texts = [_text(values[name], name) for name in TEXTS]
            binary = [base64.b64decode(_text(values[name], name), validate=True) for name in BINARY]
            examples = strict_json.count(values["examples"], "examples")
        except ValueError as error:
            raise InputError("input-unreadable", path="a request", problem=str(error)) from None
        suite, suite_version, profile, arithmetic = texts
        corpus, splits, vectors, weights = binary
        return cls(suite, suite_version, profile, arithmetic, corpus, splits, vectors, weights, examples)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value


@runtime_checkable
class AnsweringBackend(Protocol):
    """A backend that needs no trace to answer vector cases: what it computed is looked at as it is."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    def answer_cases(self, request: TraceRequest) -> Answers:
        """Return its answers to the vector cases of a request, whose profile is `edges`.

        Raises:
            NotOffered: the backend does not answer this request.
            `backend-crashed`, FixtureError: it tried and failed.
        """
        ...


class Backend(Protocol):
    """An implementation that is judged."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    def trace(self, request: TraceRequest) -> bytes:
        """Return the bytes of the trace that is asked for.

        Raises:
            NotOffered: the backend does not answer this request.
            `backend-crashed`, FixtureError: it tried and failed.
        """
        ...

    def replay(self, request: TraceRequest) -> bytes:
        """Return the trace of a second run that shares nothing with the first.

        That is a fresh process, another hash seed and another thread count.

        Raises:
            NotOffered: the backend cannot be run again.
            `backend-crashed`, FixtureError: it tried and failed.
        """
        ...


Value = TypeVar("Value")


def ask(backend: Backend, request: TraceRequest) -> bytes:
    """Return the bytes of the trace that is asked for.

    Raises:
        NotOffered: the backend does not answer this request.
        BackendError (backend-crashed): it raised, tried to end the program, or returned something else than bytes.
        BackendError, FixtureError: it says so itself.
    """
    return _answer(backend.name, bytes, lambda: backend.trace(request))


def ask_again(backend: Backend, request: TraceRequest) -> bytes:
    """Return the bytes of a second run.

    Raises:
        BackendError, FixtureError: as `ask`.
    """
    return _answer(backend.name, bytes, lambda: backend.replay(request))


def ask_cases(backend: AnsweringBackend, request: TraceRequest) -> Answers:
    """Return the answers to the vector cases of a request, without a trace.

    Raises:
        BackendError, FixtureError: as `ask`.
    """
    return _answer(backend.name, Answers, lambda: backend.answer_cases(request))


def spell(backend: Backend, request: TraceRequest, answers: Answers, digest: str) -> bytes:
    """Return the trace that a recording of answers holds; `digest` is that of the vectors.

    Raises:
        BackendError (backend-crashed): they hold what no trace can.
    """
    envelope = Envelope(request.suite, request.suite_version, request.profile, answers.arithmetic, digest)
    return _answer(backend.name, bytes, lambda: format_trace(envelope, answers.records()).encode("utf-8"))


def own_arithmetic(backend: Backend) -> str | None:
    """Return the arithmetic that a backend says it answers in, where it has one of its own.

    One that fails to say so fails again when it is asked something, and is judged then.
    """
    try:
        stated = getattr(backend, "arithmetic", None)
    except BackendError:
        return None
    return stated if isinstance(stated, str) else None


def _answer(name: str, kind: type[Value], call: Callable[[], object]) -> Value:
    try:
        answer = call()
    except (BackendError, FixtureError):
        raise
    except (Exception, SystemExit) as error:
        raise BackendError("backend-crashed", backend=name, problem=one_line(error)) from error
    if not isinstance(answer, kind):
        raise BackendError(
            "backend-crashed",
            backend=name,
            problem=f"its answer is of the type {type(answer).__name__}, not {kind.__name__}",
        )
    return answer
