"""A process that never outlives this one: started behind a guard, and ended with everything that it started.

Where the guard cannot run (there are no process groups on Windows), the process alone is ended.
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

from cai_conformance.serving import guard

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
            self.process.kill()
        try:
            self.process.wait(GRACE + _GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listen()
        if self.started and not self.ended:
            # Somebody ended the guard before it could do its work.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(self.started), signal.SIGKILL)

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
            *(sys.executable, "-I", "-S", str(Path(guard.__file__))),
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
