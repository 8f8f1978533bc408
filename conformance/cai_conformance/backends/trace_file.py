"""A trace file as a backend: it answers the one request that it records; and the bytes of files, pipes and devices."""

from __future__ import annotations

import os
import stat
from io import BytesIO
from typing import IO, BinaryIO, Final

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import BackendError, InputError
from cai_conformance.trace.parse import FILE_LIMIT, LINE_LIMIT, GrammarOf, parse
from cai_conformance.trace.records import Trace

OPENING_BYTES: Final = 1 << 16
"""The line that says what a trace answers is looked for in so many bytes."""

FROM_A_DEVICE: Final = 1 << 20
"""So many bytes are read from a device at most: some, such as /dev/zero, have no end."""

_AT_ONCE: Final = 1 << 18


def open_file(path: str) -> BinaryIO:
    """Open a file, which stays on its disk; what a pipe or a device gives is read whole.

    Raises:
        InputUnreadable: the operating system refuses; nothing comes through the pipe; a line from it is beyond the
            limit; a device does not end.
        InputTooLarge: a file is beyond the limit of a trace.
    """
    try:
        # Without waiting, so that a pipe to which nobody writes is no reason to wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(descriptor, "rb")  # a folder is refused here, and closed
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            if status.st_size > FILE_LIMIT:
                file.close()
                raise InputError("input-too-large", path=path, size=status.st_size, limit=FILE_LIMIT)
            return file
        with file:
            os.set_blocking(descriptor, True)
            if stat.S_ISFIFO(status.st_mode):
                if data := read_stream(file, path):
                    return BytesIO(data)
                raise InputError("input-unreadable", path=path, problem="nothing came through this pipe")
            data = file.read(FROM_A_DEVICE + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            "input-unreadable",
            path=path,
            problem=(error.strerror if isinstance(error, OSError) else None) or str(error),
        ) from None
    if len(data) > FROM_A_DEVICE:
        raise InputError("input-unreadable", path=path, problem="it is a device, and does not end")
    return BytesIO(data)


def read_file(path: str) -> bytes:
    """Return the bytes of a file, a pipe or a device; refused as `open_file` does."""
    with open_file(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise InputError("input-unreadable", path=path, problem=error.strerror or str(error)) from None


def read_stream(stream: IO[bytes], name: str) -> bytes:
    """Return what a stream gives until it ends, to the limit of a trace and one byte further, which shows as too large.

    Raises:
        InputUnreadable: the operating system refuses, or a line is beyond the limit, so that it may have no end.
    """
    kept = bytearray()
    since = 0
    try:
        while len(kept) <= FILE_LIMIT and (data := stream.read(min(_AT_ONCE, FILE_LIMIT + 1 - len(kept)))):
            kept += data
            line_feed = data.rfind(b"\n")
            since = since + len(data) if line_feed < 0 else len(data) - line_feed - 1
            if since > LINE_LIMIT:
                raise InputError(
                    "input-unreadable",
                    path=name,
                    problem=f"one of its lines is longer than the limit of {LINE_LIMIT} bytes",
                )
    except OSError as error:
        raise InputError("input-unreadable", path=name, problem=error.strerror or str(error)) from None
    return bytes(kept)


class TraceFileBackend:
    """A file that some program wrote, or what came through standard input.

    The first line says which suite, profile and arithmetic it answers; whether the rest is a trace is for the judges.
    """

    def __init__(self, path: str, file: bytes | BinaryIO) -> None:
        self.name = f"trace:{path}"
        self._file = BytesIO(file) if isinstance(file, bytes) else file
        self._parsed: Trace | None = None
        opening = self._file.read(OPENING_BYTES).partition(b"\n")[0].decode("utf-8", "replace")
        fields = [piece.partition("=") for piece in opening.split("|")]
        self.stated = {name: value for name, _, value in fields}

    @classmethod
    def open(cls, path: str) -> TraceFileBackend:
        """Read a file.

        Raises:
            TraceFileUnreadable: it is not there, the operating system refuses, it is too large, or it is a device
                without end.
        """
        try:
            return cls(path, read_file(path))
        except InputError as error:
            if error.code == "input-unreadable":
                problem = str(error.fields["problem"])
            elif error.code == "input-too-large":
                problem = f"{error.fields['size']} bytes are more than the limit of {error.fields['limit']}"
            else:
                raise
            raise BackendError("trace-file-unreadable", path=path, problem=problem) from None

    def trace(self, request: TraceRequest) -> bytes:
        """Return the file, if it states the suite and profile that are asked for.

        Raises:
            NotOffered: it states others. A file that states none is returned, for the judge of the grammar.
        """
        self.check(request)
        self._file.seek(0)
        return self._file.read()

    def parsed(self, request: TraceRequest, grammar_of: GrammarOf) -> Trace:
        """Return the trace that the file holds.

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
            self._parsed = parse(self._file, grammar_of)
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
