"""From an exception to one sentence on standard error, the next command to try, and an exit code."""

from __future__ import annotations

from cai_conform.terminal import say


def explain(error: Exception) -> int:
    """Print what went wrong and return the exit code: 2, unless the error knows better."""
    say(f"cai-conform: {_one_line(str(error))}")
    next_command = getattr(error, "next_command", "")
    if next_command:
        say(f"try: {next_command}")
    return int(getattr(error, "exit_code", 2))


def _one_line(text: str) -> str:
    return " ".join(text.split())
