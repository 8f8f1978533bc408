"""A program on a terminal of its own: what it shows is waited for, what it is told is typed."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence

from support_cli import environment_of

CTRL_C, CTRL_D = b"\x03", b"\x04"
PATIENCE = 60.0
"""Seconds after which a program is given up."""


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

    def wait_for(self, text: bytes) -> None:
        """Read on until a text is shown behind those that were waited for before."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown[self._unread :]:
            ready = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, self.shown
            self.shown += os.read(self._terminal, 4096)
        self._unread = self.shown.index(text, self._unread) + len(text)

    def leave(self) -> int:
        """Read to the end, and return the exit code."""
        try:
            while data := os.read(self._terminal, 4096):
                self.shown += data
        except OSError:
            # A terminal that nobody holds any more reports that as an error.
            pass
        code = self._process.wait(PATIENCE)
        os.close(self._terminal)
        return code


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C reaches the program."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
