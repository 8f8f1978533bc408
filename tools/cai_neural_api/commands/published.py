"""`cai-conform published`: what was published beside what is counted here."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output, progress
from cai_neural_api.commands.printing import Format, as_table, print_lines, print_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cai_neural_api.published import Figure


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
    if as_table(output_format, console):
        _print_table(shown, console)
        style, meaning = ("bold red", "they differ") if code else ("bold green", "as published")
        summary = f"{len(figures)} figures: {equal} equal, {len(figures) - equal} different."
        console.print(f"{summary} [{style}]Exit {code}: {meaning}.[/{style}]", soft_wrap=True)
    else:
        print_objects(map(_as_object, shown))
        counts = {"figures": len(figures), "equal": equal, "different": len(figures) - equal}
        print_objects([{"type": "summary", "counts": counts, "exit_code": code}])
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

    from cai_conformance.report.terminal import Column, right_columns, table_lines

    numbers = right_columns("published", "counted")
    columns = (Column("figure", folded=True), *numbers, Column("unit"), Column("equal"))
    for source, group in groupby(figures, lambda figure: figure.source):
        of_source = list(group)
        rows = [(f.name, f"{f.published:,}", f"{f.counted:,}", f.unit, "yes" if f.equal else "NO") for f in of_source]
        styles = ["" if figure.equal else "bold red" for figure in of_source]
        print_lines(console, [Text(source, "bold"), *table_lines(columns, rows, console.width, styles), Text()])
