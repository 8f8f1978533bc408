"""The three streams of a process, each served by a thread, so that no side ever waits for a full pipe."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import IO, Final

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.verdicts import WALL

_CHUNK: Final = 1 << 16
_JOIN_SECONDS: Final = 2.0
_SLICE_SECONDS: Final = 0.2
"""How long to wait at once: an interruption that comes just before a wait is seen only behind it."""

_TAIL_BYTES: Final = 2048


class StreamWriter:
    """Writes to a process at the pace at which it reads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = _started(self._run, "writer")

    def write(self, data: bytes) -> None:
        """Send bytes after those that wait already; a process that no longer reads is noticed by its silence."""
        self._waiting.put(data)

    def close(self) -> None:
        """Let the process see the end of its input, once all has been written or it reads no more."""
        self._waiting.put(None)

    def join(self) -> None:
        """Wait for the thread; the process has ended."""
        self.close()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while (data := self._waiting.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError:
            pass
        finally:
            self._file.close()


class LineReader:
    """Reads lines from a process, at most a few ahead, and none that is longer than a limit."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._limit = limit
        self._found: queue.Queue[bytes | ProtocolViolation | None] = queue.Queue(maxsize=4)
        self._closing = False
        self._thread = _started(self._run, "reader")

    def next(self, seconds: float) -> bytes | None:
        """Return the next line without its end; None where the stream has ended behind a whole line.

        Raises:
            TimeoutError: there is none within so many seconds.
            ProtocolViolation: it is too long, or the stream ended within it.
        """
        deadline = WALL() + seconds
        while True:
            left = deadline - WALL()
            try:
                found = self._found.get(timeout=min(max(left, 0.0), _SLICE_SECONDS))
                break
            except queue.Empty:
                if left <= _SLICE_SECONDS:
                    raise TimeoutError from None
        if isinstance(found, ProtocolViolation):
            raise found
        return found

    def join(self) -> None:
        """Wait for the thread; the process has ended."""
        self._closing = True
        for _ in range(int(_JOIN_SECONDS * 100)):
            # It may wait for a place to put a line that nobody wants any more.
            while not self._found.empty():
                self._found.get_nowait()
            self._thread.join(0.01)
            if not self._thread.is_alive():
                return

    def _run(self) -> None:
        try:
            self._read()
        except OSError:
            pass
        finally:
            self._found.put(None)
            self._file.close()

    def _read(self) -> None:
        line = bytearray()
        while chunk := os.read(self._file.fileno(), _CHUNK):
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                line += piece
                if not self._put(line):
                    return
                line = bytearray()
            line += rest
            if len(line) >= self._limit:
                self._put(line)
                return
        if line:
            self._found.put(ProtocolViolation("its output", f"ends within a line, behind {bytes(line[-40:])!r}"))

    def _put(self, line: bytearray) -> bool:
        """Hand a line over; tell whether to go on."""
        if len(line) >= self._limit:
            self._found.put(ProtocolViolation("its output", f"has a line of more than {self._limit} bytes"))
            return False
        self._found.put(bytes(line))
        return not self._closing


class Spool:
    """Copies the output of a process to a file, up to a limit."""

    def __init__(self, file: IO[bytes], target: IO[bytes], limit: int) -> None:
        self._file = file
        self._target = target
        self._left = limit
        self.overflowed = False
        self.problem = ""
        self._thread = _started(self._run, "spool")

    def finished(self, seconds: float) -> bool:
        """Wait for the end of the output, at most so many seconds; tell whether it has come."""
        deadline = WALL() + seconds
        while self._thread.is_alive() and (left := deadline - WALL()) > 0:
            self._thread.join(min(left, _SLICE_SECONDS))
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread; the process has ended."""
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while chunk := os.read(self._file.fileno(), _CHUNK):
                self._left -= len(chunk)
                if self._left < 0:
                    self.overflowed = True
                    return
                self._target.write(chunk)
        except (OSError, ValueError) as error:
            self.problem = str(error)
        finally:
            self._file.close()


class ErrorTail:
    """Drains standard error, and keeps its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._tail = b""
        self._thread = _started(self._run, "error tail")

    def lines(self) -> list[str]:
        """Return the last lines, printable, without empty ones."""
        text = self._tail.decode("utf-8", "replace")
        lines = (printable(line).strip() for line in text.splitlines())
        return [line for line in lines if line]

    def text(self) -> str:
        """Return the last lines as one, with ` / ` between them."""
        return " / ".join(self.lines())

    def join(self) -> None:
        """Wait for the thread; the process has ended, or soon will."""
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while chunk := os.read(self._file.fileno(), _CHUNK):
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        except OSError:
            pass
        finally:
            self._file.close()


def printable(text: str) -> str:
    """Return a text without anything that moves a cursor, colours a terminal or breaks a line."""
    return "".join(character if character.isprintable() else "�" for character in text.replace("\t", " "))


def _started(run: Callable[[], None], name: str) -> threading.Thread:
    # A daemon, since a process that was not caught might hold the pipe open for ever.
    thread = threading.Thread(target=run, name=f"cai-conform {name}", daemon=True)
    thread.start()
    return thread
