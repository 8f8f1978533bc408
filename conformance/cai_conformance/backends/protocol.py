"""What a suite asks and a backend answers.

The trace is the interface: a backend turns a request into the bytes of a trace. Everything that a request needs travels
inside it, so that it can be answered in another process, or by another program.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields
from typing import Final, Protocol

from cai_conformance.errors import InputUnreadable
from cai_conformance.goldens import strict_json

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
            InputUnreadable: it is something else.
        """
        try:
            parsed = strict_json.parse(line.encode("utf-8", "surrogatepass"))
            values = strict_json.obj(parsed, (*TEXTS, *BINARY, "examples"), "it")
            texts = [_text(values[name], name) for name in TEXTS]
            binary = [base64.b64decode(_text(values[name], name), validate=True) for name in BINARY]
            examples = strict_json.count(values["examples"], "examples")
        except ValueError as error:
            raise InputUnreadable("a request", str(error)) from None
        suite, suite_version, profile, arithmetic = texts
        corpus, splits, vectors, weights = binary
        return cls(suite, suite_version, profile, arithmetic, corpus, splits, vectors, weights, examples)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value


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
            BackendCrashed, FixtureError: it tried and failed.
        """
        ...

    def replay(self, request: TraceRequest) -> bytes:
        """Return the trace of a second run that shares nothing with the first.

        That is a fresh process, another hash seed and another thread count.

        Raises:
            NotOffered: the backend cannot be run again.
            BackendCrashed, FixtureError: it tried and failed.
        """
        ...
