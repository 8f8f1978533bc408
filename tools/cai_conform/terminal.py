"""Standard output and standard error: results on one, messages and progress on the other."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING

from cai_conform.options import ColorChoice

if TYPE_CHECKING:
    from rich.console import Console


def prepare_streams() -> None:
    """Make the standard streams safe to print to: closed ones swallow, narrow encodings get escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Where standard error is closed, print(file=None) would write messages among the results.
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
    """Write one message line to standard error; where that fails, there is nobody left to tell."""
    with suppress(OSError):
        print(text, file=sys.stderr)


@contextmanager
def progress(text: str, steps: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show how far things are on a terminal: a bar of `steps`, or a sign of life where their number is not known.

    Yields a function that moves the bar on by one step and shows what the step was. Meanwhile, what backends print goes
    to standard error: standard output is for results.
    """
    console = messages()
    with redirect_stdout(sys.stderr):
        if not console.is_terminal:
            yield lambda _: None
        elif steps is None:
            with console.status(text):
                yield lambda _: None
        else:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with Progress(*columns, TextColumn("{task.fields[step]}"), console=console, transient=True) as bar:
                task = bar.add_task(text, total=steps, step="")
                yield lambda step: bar.update(task, advance=1, step=step)


def _console(color: ColorChoice, *, error: bool) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the program with the exit code of a backend that does not conform.
            raise BrokenPipeError

    return PlainConsole(
        stderr=error,
        force_terminal=True if color is ColorChoice.ALWAYS else None,
        no_color=color is ColorChoice.NEVER or (color is ColorChoice.AUTO and bool(os.environ.get("NO_COLOR"))),
        highlight=False,
        soft_wrap=False,
    )
