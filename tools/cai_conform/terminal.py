"""Standard output and standard error: results on one, messages and progress on the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cai_conform.options import ColorChoice

if TYPE_CHECKING:
    from rich.console import Console


def output(color: ColorChoice) -> Console:
    """Return the console for results."""
    return _console(color, error=False)


def messages(color: ColorChoice = ColorChoice.AUTO) -> Console:
    """Return the console for messages and progress."""
    return _console(color, error=True)


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    """Write one message line to standard error."""
    print(text, file=sys.stderr)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show that something is going on, while it does, on a terminal only."""
    console = messages()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _console(color: ColorChoice, *, error: bool) -> Console:
    from rich.console import Console

    return Console(
        stderr=error,
        force_terminal=True if color is ColorChoice.ALWAYS else None,
        no_color=color is ColorChoice.NEVER or (color is ColorChoice.AUTO and bool(os.environ.get("NO_COLOR"))),
        highlight=False,
        soft_wrap=False,
    )
