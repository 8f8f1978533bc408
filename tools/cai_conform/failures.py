"""From an exception to one sentence on standard error, the next command to try, and an exit code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from cai_conform.terminal import say

COMMANDS = "cai_conform.commands"
"""The group of entry points by which packages bring commands of their own, each a Typer app."""

READER_GONE = 141
"""The exit code of a program whose reader closed the pipe, as shells count it: 128 and the number of SIGPIPE."""


class Commands(TyperGroup):
    """The group of all commands: what one of them raises becomes a sentence and an exit code.

    What is not our own error keeps its traceback: it is a defect, and should look like one. Commands of other packages
    are looked for when one is asked for that is not ours, or when all are listed.
    """

    # The types of contexts and commands have moved between releases of Typer.
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, or None."""
        if cmd_name not in self.commands:
            self._add_commands_of_others()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, before those of groups of commands."""
        self._add_commands_of_others()
        return sorted(self.commands, key=lambda name: isinstance(self.commands[name], TyperGroup))

    def _add_commands_of_others(self) -> None:
        """Add what entry points bring; a package that is broken or gone must not take our own commands with it."""
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=COMMANDS), key=lambda point: point.name):
            try:
                added = get_group(point.load()).commands
            except Exception as error:
                say(f"cai-conform: the commands of {point.name} are left out: {error}")
            else:
                self.commands.update((name, command) for name, command in added.items() if name not in self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for, and have its output written before the exit code is decided."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _forget_output()
            raise typer.Exit(READER_GONE) from None
        except OSError as error:
            _forget_output()
            raise typer.Exit(explain_refusal(error)) from None
        except Exception as error:
            if not _is_ours(error):
                raise
            raise typer.Exit(explain(error)) from None


def explain(error: Exception) -> int:
    """Print what went wrong and return the exit code: 2, unless the error knows better."""
    from cai_conformance.report.terminal import printable

    say(f"cai-conform: {printable(str(error))}")
    next_command = getattr(error, "next_command", "")
    if next_command:
        say(f"try: {next_command}")
    return int(getattr(error, "exit_code", 2))


def explain_refusal(error: OSError) -> int:
    """Print what the operating system refused, such as writing to a full disk, and return the exit code."""
    say(f"cai-conform: the operating system refuses: {error.strerror or error}")
    return 2


def _is_ours(error: Exception) -> bool:
    from cai_conformance.errors import ConformanceError
    from cai_reference.errors import CaiReferenceError

    return isinstance(error, ConformanceError | CaiReferenceError)


def _forget_output() -> None:
    """Keep Python from complaining, while it closes, about output that nobody takes."""
    # A stream without a file of its own has nothing left to write.
    with suppress(OSError):
        descriptor = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
