"""A program on a terminal of its own: what it shows is waited for, what it is told is typed."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence

from support_cli import environment_of

CTRL_C, CTRL_D = b"\x03", b"\x04"
PATIENCE = 60.0
"""Seconds after which a program is given up."""
RETYPED = 5.0
"""Seconds after which keys are typed again.

A Ctrl-C that comes between the moment a prompt is shown and the moment the line editor waits is noticed by CPython's
`input` only at the next key.
"""


class Conversation:
    """A program whose standard streams are one terminal."""

    def __init__(self, command: Sequence[str], **variables: str) -> None:
        import pty

        self.shown = b""
        self._unread = 0
        self._terminal, inner = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env=environment_of(**{"TERM": "dumb", **variables}),
        )
        os.close(inner)

    def type(self, keys: bytes) -> None:
        """Type."""
        os.write(self._terminal, keys)

    def wait_for(self, text: bytes, retyped: bytes = b"") -> None:
        """Read on until a text is shown behind those that were waited for before."""
        for _ in self._reading(retyped):
            if text in self.shown[self._unread :]:
                break
        else:
            raise AssertionError(self.shown)
        self._unread = self.shown.index(text, self._unread) + len(text)

    def leave(self, retyped: bytes = b"") -> int:
        """Read to the end, and return the exit code."""
        for _ in self._reading(retyped):
            pass
        code = self._process.wait(PATIENCE)
        os.close(self._terminal)
        return code

    def _reading(self, retyped: bytes) -> Iterator[None]:
        """Read piece by piece to the end; keys are typed again whenever nothing comes for a while.

        Raises:
            AssertionError: nothing came for too long. The program is killed.
        """
        deadline = time.monotonic() + PATIENCE
        yield
        while time.monotonic() < deadline:
            if not select.select([self._terminal], [], [], RETYPED)[0]:
                self.type(retyped)
                continue
            try:
                data = os.read(self._terminal, 4096)
            except OSError:
                # A terminal that nobody holds any more reports that as an error.
                return
            if not data:
                return
            self.shown += data
            yield
        self._process.kill()
        raise AssertionError(self.shown)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C reaches the program."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
