"""`cai-conform published`: what was published beside what is counted here."""

from __future__ import annotations

import json
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cai_neural_api.published import Figure


class FigureFormat(StrEnum):
    """How figures are printed."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[
    FigureFormat | None, typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what differs, and the summary.")]


def published(
    output_format: Format = None, color: options.Color = options.ColorChoice.AUTO, quiet: Quiet = False
) -> None:
    """Count every published figure that needs no clock, on models of that size. Exit code 1 on a difference."""
    from cai_neural_api import published as counting

    with progress("counting published figures"):
        figures = counting.published_figures()
    shown = [figure for figure in figures if not (quiet and figure.equal)]
    equal = sum(figure.equal for figure in figures)
    code = 0 if equal == len(figures) else 1
    console = output(color)
    if output_format is FigureFormat.TABLE or (output_format is None and console.is_terminal):
        _print_table(shown, console)
        style, meaning = ("bold red", "they differ") if code else ("bold green", "as published")
        summary = f"{len(figures)} figures: {equal} equal, {len(figures) - equal} different."
        console.print(f"{summary} [{style}]Exit {code}: {meaning}.[/{style}]", soft_wrap=True)
    else:
        for figure in shown:
            print(json.dumps(_as_object(figure), allow_nan=False))
        counts = {"figures": len(figures), "equal": equal, "different": len(figures) - equal}
        print(json.dumps({"type": "summary", "counts": counts, "exit_code": code}))
    raise typer.Exit(code)


def _as_object(figure: Figure) -> dict[str, object]:
    return {
        "type": "figure",
        "source": figure.source,
        "figure": figure.name,
        "unit": figure.unit,
        "published": figure.published,
        "counted": figure.counted,
        "equal": figure.equal,
    }


def _print_table(figures: Sequence[Figure], console: Console) -> None:
    """Print a heading a source, and below it a line a figure; names are folded where the terminal is narrow."""
    from rich.text import Text

    from cai_conformance.report.terminal import Column, table_lines

    columns = (
        Column("figure", folded=True),
        Column("published", right=True),
        Column("counted", right=True),
        Column("unit"),
        Column("equal"),
    )
    for source, group in groupby(figures, lambda figure: figure.source):
        of_source = list(group)
        rows = [(f.name, f"{f.published:,}", f"{f.counted:,}", f.unit, "yes" if f.equal else "NO") for f in of_source]
        styles = ["" if figure.equal else "bold red" for figure in of_source]
        for line in (Text(source, "bold"), *table_lines(columns, rows, console.width, styles)):
            console.print(line, soft_wrap=True)
        console.print()
