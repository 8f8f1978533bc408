"""A trace file as a backend: it answers the one request that it records."""

from __future__ import annotations

from cai_conformance.backends.errors import NotOffered, TraceFileUnreadable
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import InputUnreadable
from cai_conformance.trace.parser import GrammarOf
from cai_conformance.trace.records import Trace
from cai_conformance.trace.source import Source, open_source
from cai_conformance.trace.streaming import parse_source

OPENING_BYTES = 1 << 16
"""The line that says what a trace answers is looked for in so many bytes."""


class TraceFileBackend:
    """A file that some program wrote, or what came through standard input.

    The first line says which suite, profile and arithmetic it answers; whether the rest is a trace is for the judges.
    It is read once and never held as a whole, so that it may be larger than memory.
    """

    def __init__(self, path: str, source: bytes | Source) -> None:
        self.name = f"trace:{path}"
        self.source = Source.of_bytes(source, path) if isinstance(source, bytes) else source
        self._parsed: Trace | None = None
        beginning = self.source.read(0, min(OPENING_BYTES, self.source.size))
        opening = beginning.partition(b"\n")[0].decode("utf-8", "replace")
        fields = [piece.partition("=") for piece in opening.split("|")]
        self.stated = {name: value for name, _, value in fields}

    @classmethod
    def open(cls, path: str) -> TraceFileBackend:
        """Open a file.

        Raises:
            TraceFileUnreadable: it is not there, the operating system refuses, or it is a device without end.
        """
        try:
            return cls(path, open_source(path))
        except InputUnreadable as error:
            raise TraceFileUnreadable(path, error.problem) from None

    def trace(self, request: TraceRequest) -> bytes:
        """Return the file, if it states the suite and profile that are asked for.

        Raises:
            NotOffered: it states others. A file that states none is returned, for the judge of the grammar.
        """
        self.check(request)
        return self.source.whole()

    def parsed(self, request: TraceRequest, grammar_of: GrammarOf) -> Trace:
        """Return the trace that the file holds, with its records still in the file where it is large.

        Raises:
            NotOffered: as `trace` does.
            TraceFault: it is not a trace.
        """
        self.check(request)
        return self.read(grammar_of)

    def read(self, grammar_of: GrammarOf) -> Trace:
        """Return the trace that the file holds, whatever it answers; it is read once.

        Raises:
            TraceFault: it is not a trace.
        """
        if self._parsed is None:
            self._parsed = parse_source(self.source, grammar_of)
        return self._parsed

    def replay(self, request: TraceRequest) -> bytes:
        """Refuse: a file cannot be run again.

        Raises:
            NotOffered: always; where it does not answer the request at all, as `trace` does.
        """
        self.check(request)
        raise NotOffered(self.name, "a replay", "a trace file cannot be run again")

    def check(self, request: TraceRequest) -> None:
        """Refuse a request for another suite or profile than the file states.

        Raises:
            NotOffered: it states others.
        """
        for name in ("suite", "profile"):
            stated, wanted = self.stated.get(name), getattr(request, name)
            if stated is not None and stated != wanted:
                raise NotOffered(self.name, f"{name} {wanted}", f"the file records {name} {stated}")
