"""The numbers of the protocol, and what this side is willing to read.

A process that never outlives this one: started behind a guard, and ended with everything that it started.

Where the guard cannot run (on Windows), this process ends the other one with its descendants.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import psutil

from cai_conformance.backends.serve import guard

PROTOCOL: Final = "1"
"""The version of the protocol, which `start` asks for and answers."""

CLIENT: Final = "cai-conform"
"""What `start` calls this side."""

LINE_BYTES: Final = 16 << 20
"""How long a line may be, with its end."""

LARGEST: Final = 1 << 53
"""The largest integer that travels as one; a larger one is a string of bits."""

DEPTH: Final = 32
"""How deep the objects and lists of a line may be nested; the protocol needs 8."""

INLINE_BYTES: Final = 64 << 10
"""How large a tensor may be that stands in the line."""

TENSOR_BYTES: Final = 256 << 20
"""How large a tensor may be."""

ANSWER_BYTES: Final = 1 << 30
"""How large all tensors of an answer may be together."""

AXES: Final = 8
"""How many axes a tensor may have."""

NAMES: Final = 1 << 16
"""How many named things a list may hold."""

TEXT: Final = 4096
"""How many characters a name or a reason may have."""


GRACE: Final = 0.2
"""Seconds that a process has between being asked to end and being ended."""

_GUARD_SECONDS: Final = 5.0


@dataclass(eq=False)
class _Held:
    """What must be let go of, whatever happens."""

    process: subprocess.Popen[bytes]
    control: int = -1
    status: int = -1
    told: bytes = field(default=b"")

    def end(self) -> None:
        """End the process and its descendants; may be called again."""
        if self.control >= 0:
            # The guard takes the end of this pipe as the order.
            os.close(self.control)
            self.control = -1
        elif self.status < 0 and self.process.poll() is None:
            guard.end_process_tree(self.process.pid)
        try:
            self.process.wait(GRACE + _GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listen()
        if self.started and not self.ended:
            # Somebody ended the guard before it could do its work.
            guard.end_process_tree(int(self.started))

    def listen(self) -> None:
        """Take what the guard said; it has ended."""
        if self.status < 0:
            return
        while chunk := os.read(self.status, 4096):
            self.told += chunk
        os.close(self.status)
        self.status = -1

    @property
    def started(self) -> str:
        """The process id behind the guard, or nothing."""
        return self._said("started")

    @property
    def ended(self) -> str:
        """The exit code, or nothing."""
        return self._said("ended") if self.guarded else str(self.process.returncode)

    @property
    def failed(self) -> str:
        """Why the program could not be started, or nothing."""
        return self._said("failed")

    @property
    def guarded(self) -> bool:
        """Whether the process is a guard."""
        return os.name == "posix"

    def _said(self, word: str) -> str:
        lines = self.told.decode("utf-8", "replace").splitlines()
        return next((line.removeprefix(word).strip() for line in lines if line.startswith(word)), "")


class Child:
    """A process with three pipes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it; that it cannot be started may show only when its output ends.

        Raises:
            OSError: the system refuses to start any process.
        """
        self._held = _start(command, environment)
        # At the end of the interpreter, too.
        self._finalizer = weakref.finalize(self, self._held.end)

    @property
    def stdin(self) -> IO[bytes]:
        """What it reads."""
        return _stream(self._held.process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        """What it prints."""
        return _stream(self._held.process.stdout)

    @property
    def stderr(self) -> IO[bytes]:
        """What it says."""
        return _stream(self._held.process.stderr)

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so many seconds; tell whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._held.process.wait(max(seconds, 0.0))
            self._held.listen()
            return True
        return False

    def end(self) -> None:
        """End it, and whatever it started; may be called again."""
        try:
            self._held.end()
        finally:
            self._finalizer.detach()

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None where it runs, or could not be started."""
        return int(self._held.ended) if self._held.process.returncode is not None and self._held.ended else None

    def how_it_ended(self) -> str:
        """Return how a process ended that has ended by itself."""
        if self._held.failed:
            return f"cannot be started: {self._held.failed}"
        code = self.code
        if code is None:
            return "was ended together with its guard"
        return f"ended with exit code {code}" if code >= 0 else f"was ended by the signal {signal_name(-code)}"


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _start(command: Sequence[str], environment: Mapping[str, str] | None) -> _Held:
    if os.name != "posix":
        return _Held(_popen(command, environment))
    control_read, control = os.pipe()
    status, status_write = os.pipe()
    try:
        guarded = [
            *(sys.executable, "-I", "-S", str(Path(guard.__file__)), str(Path(psutil.__file__).parents[1])),
            *(str(control_read), str(status_write), str(GRACE)),
            *command,
        ]
        process = _popen(guarded, environment, start_new_session=True, pass_fds=(control_read, status_write))
    except BaseException:
        os.close(control)
        os.close(status)
        raise
    finally:
        os.close(control_read)
        os.close(status_write)
    return _Held(process, control, status)


def _popen(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    *,
    start_new_session: bool = False,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if environment is None else dict(environment),
        start_new_session=start_new_session,
        pass_fds=pass_fds,
    )


def _stream(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None
    return file
