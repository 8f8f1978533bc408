"""How the commands about nets print results: a table on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform.options import PlainChoice

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Format = Annotated[
    PlainChoice | None, typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out.")
]
ArithmeticName = Annotated[str, typer.Option("--arithmetic", "-a", metavar="NAME", help="strict, libm or fast.")]

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells count it: 128 and the number of SIGINT."""


def as_table(chosen: PlainChoice | None, console: Console) -> bool:
    """Whether results are printed as a table: if that was asked for, or on a terminal if nothing was."""
    return chosen is PlainChoice.TABLE or (chosen is None and console.is_terminal)


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines as they are: they have been made to fit."""
    for line in lines:
        console.print(line, soft_wrap=True)


def print_objects(objects: Iterable[Mapping[str, object]]) -> None:
    """Print one JSON object a line."""
    for value in objects:
        print(json.dumps(value, allow_nan=False, ensure_ascii=False), flush=True)
