"""The bytes of a trace at rest: in memory, in a file, or taken from a pipe into a temporary file.

A trace may be larger than the memory that a reader wants to spend, so that it is read in blocks of whole lines.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import IO, Final

from cai_conformance.errors import InputUnreadable
from cai_conformance.trace.lines import FILE_LIMIT, LINE_LIMIT

BLOCK: Final = 1 << 18
"""About how many bytes are read at once."""

IN_MEMORY: Final = 1 << 20
"""A trace of at most so many bytes is read whole."""

FROM_A_DEVICE: Final = 1 << 20
"""So many bytes are read from a device at most: some, such as /dev/zero, have no end."""


class Source:
    """Bytes that can be read from any place; safe among threads.

    Attributes:
        name: what a message calls it.
        size: how many bytes there are.
    """

    def __init__(self, name: str, file: IO[bytes], size: int) -> None:
        self.name = name
        self.size = size
        self._file = file
        self._lock = Lock()
        weakref.finalize(self, file.close)

    @classmethod
    def of_bytes(cls, data: bytes, name: str = "") -> Source:
        """Return the source of bytes in memory."""
        return cls(name, io.BytesIO(data), len(data))

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from one place to another.

        Raises:
            InputUnreadable: the operating system refuses, or the file has become shorter.
        """
        try:
            with self._lock:
                self._file.seek(start)
                data = self._file.read(end - start)
        except OSError as error:
            raise InputUnreadable(self.name, error.strerror or str(error)) from None
        if len(data) < end - start:
            raise self.changed()
        return data

    def whole(self) -> bytes:
        """Return all bytes."""
        return self.read(0, self.size)

    def changed(self) -> InputUnreadable:
        """Return what is to be raised where it holds something else than when it was first read."""
        return InputUnreadable(self.name, "it changed while it was read")


@dataclass(frozen=True)
class Block:
    """Some bytes of a source and where they begin: whole lines, or the first bytes of a line beyond the limit.

    Attributes:
        start: where the bytes begin.
        data: the bytes.
        overlong: how long that line is without its LF; 0 where the lines are whole.
        complete: whether the last line has its LF, which only that of the last block may lack.
    """

    start: int
    data: bytes
    overlong: int = 0
    complete: bool = True


def blocks(source: Source, start: int = 0, end: int | None = None, *, line_limit: int = LINE_LIMIT) -> Iterator[Block]:
    """Yield the lines from one line start to another, or to the end, in blocks of about `BLOCK` bytes.

    No block is longer than `BLOCK` and `line_limit` bytes together, whatever the source holds.
    """
    end = source.size if end is None else end
    pending = b""
    while start + len(pending) < end:
        data = source.read(start + len(pending), min(start + len(pending) + BLOCK, end))
        cut = data.rfind(b"\n") + 1
        if cut:
            yield Block(start, pending + data[:cut])
            start, pending = start + len(pending) + cut, data[cut:]
            continue
        pending += data
        if len(pending) > line_limit:
            line_end, complete = _line_end(source, start + len(pending), end)
            yield Block(start, pending, line_end - start, complete)
            start, pending = line_end + complete, b""
    if pending:
        yield Block(start, pending, complete=False)


def _line_end(source: Source, place: int, end: int) -> tuple[int, bool]:
    """Return where the line ends that goes on at `place`, and whether an LF stands there."""
    while place < end:
        data = source.read(place, min(place + BLOCK, end))
        found = data.find(b"\n")
        if found >= 0:
            return place + found, True
        place += len(data)
    return end, False


def open_source(path: str) -> Source:
    """Return the source of a file. What a pipe gives is kept in a temporary file, up to the limits of a trace.

    Raises:
        InputUnreadable: the operating system refuses; nothing comes through the pipe; a device does not end.
    """
    try:
        # Without waiting, so that a pipe to which nobody writes is no reason to wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return Source(path, os.fdopen(descriptor, "rb", buffering=0), status.st_size)
        with os.fdopen(descriptor, "rb", buffering=0) as file:  # a folder is refused here, and closed
            if not stat.S_ISFIFO(status.st_mode):
                os.set_blocking(descriptor, True)
                return _of_device(file, path)
            os.set_blocking(descriptor, True)
            found = spooled(file, path)
    except (OSError, ValueError) as error:
        raise InputUnreadable(path, (error.strerror if isinstance(error, OSError) else None) or str(error)) from None
    if not found.size:
        raise InputUnreadable(path, "nothing came through this pipe")
    return found


def spooled(stream: IO[bytes], name: str) -> Source:
    """Return the source of what a stream gives until it ends, in memory if it is short, or in a temporary file.

    It is read to the limit of a file and one byte further, so that what is too large shows as such.

    Raises:
        InputUnreadable: the operating system refuses, or a line is beyond the limit, so that it may have no end.
    """
    kept = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # the source closes it
    size = since = 0
    try:
        while size <= FILE_LIMIT and (data := stream.read(min(BLOCK, FILE_LIMIT + 1 - size))):
            kept.write(data)
            size += len(data)
            line_feed = data.rfind(b"\n")
            since = since + len(data) if line_feed < 0 else len(data) - line_feed - 1
            if since > LINE_LIMIT:
                kept.close()
                raise InputUnreadable(name, f"one of its lines is longer than the limit of {LINE_LIMIT} bytes")
    except OSError as error:
        kept.close()
        raise InputUnreadable(name, error.strerror or str(error)) from None
    return Source(name, kept, size)


def _of_device(file: IO[bytes], path: str) -> Source:
    data = b""
    while len(data) <= FROM_A_DEVICE and (more := file.read(FROM_A_DEVICE + 1 - len(data))):
        data += more
    if len(data) > FROM_A_DEVICE:
        raise InputUnreadable(path, "it is a device, and does not end")
    return Source.of_bytes(data, path)
