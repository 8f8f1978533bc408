"""What a suite asks and a backend answers.

The trace is the interface: a backend turns a request into the bytes of a trace. Everything that a request needs travels
inside it, so that it can be answered in another process, or by another program.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

PROTOCOL_VERSION: Final = "1"


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
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(line)
        binary = {"corpus", "splits", "vectors", "weights"}
        decoded: dict[str, Any] = {
            name: base64.b64decode(value) if name in binary else value for name, value in values.items()
        }
        return cls(**decoded)


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
