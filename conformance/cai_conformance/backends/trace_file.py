"""A trace file as a backend: it answers the one request that it records."""

from __future__ import annotations

from pathlib import Path

from cai_conformance.backends.errors import NotOffered, TraceFileUnreadable
from cai_conformance.backends.protocol import TraceRequest


class TraceFileBackend:
    """A file that some program wrote, or standard input already read.

    The first line says which suite, profile and arithmetic it answers; whether the rest is a trace is for the judges.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.name = f"trace:{path}"
        self.data = data
        opening = data.partition(b"\n")[0].decode("utf-8", "replace")
        fields = [piece.partition("=") for piece in opening.split("|")]
        self.stated = {name: value for name, _, value in fields}

    @classmethod
    def open(cls, path: str) -> TraceFileBackend:
        """Read a file.

        Raises:
            TraceFileUnreadable: it is not there, or the operating system refuses.
        """
        try:
            return cls(path, Path(path).read_bytes())
        except OSError as error:
            raise TraceFileUnreadable(path, error.strerror or str(error)) from None

    def trace(self, request: TraceRequest) -> bytes:
        """Return the file, if it states the suite and profile that are asked for.

        Raises:
            NotOffered: it states others. A file that states none is returned, for the judge of the grammar.
        """
        for name in ("suite", "profile"):
            stated, wanted = self.stated.get(name), getattr(request, name)
            if stated is not None and stated != wanted:
                raise NotOffered(self.name, f"{name} {wanted}", f"the file records {name} {stated}")
        return self.data

    def replay(self, request: TraceRequest) -> bytes:
        """Refuse: a file cannot be run again.

        Raises:
            NotOffered: always.
        """
        raise NotOffered(self.name, "a replay", "a trace file cannot be run again")
