"""`cai-conform published`: what was published beside what is counted here."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cai_conformance.published import Figure


class FigureFormat(StrEnum):
    """How figures are printed."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[
    FigureFormat | None,
    typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what differs, and the summary.")]

NAMES = ("figure", "published", "counted", "unit", "equal")


def published(
    output_format: Format = None, color: options.Color = options.ColorChoice.AUTO, quiet: Quiet = False
) -> None:
    """Count every published figure that needs no clock, on models of that size. Exit code 1 on a difference."""
    from cai_conformance import published as counting

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

    from cai_conformance.reports.screen import fold, padded

    rows = [(f.name, f"{f.published:,}", f"{f.counted:,}", f.unit, "yes" if f.equal else "NO") for f in figures]
    widths = [max(map(len, column)) for column in zip(NAMES, *rows, strict=True)]
    widths[0] = min(widths[0], max(console.width - sum(widths[1:]) - 2 * len(widths), 20))

    def line(name: str, first: str, second: str, unit: str, equal: str) -> str:
        numbers = f"{first:>{widths[1]}}  {second:>{widths[2]}}"
        return f"  {padded(name, widths[0])}  {numbers}  {unit:<{widths[3]}}  {equal}"

    source = ""
    for figure, row in zip(figures, rows, strict=True):
        if figure.source != source:
            if source:
                console.print()
            source = figure.source
            console.print(Text(source, "bold"), soft_wrap=True)
            console.print(Text(line(*NAMES), "dim"), soft_wrap=True)
        name, *rest = fold(row[0], widths[0])
        console.print(Text(line(name, *row[1:]), "" if figure.equal else "bold red"), soft_wrap=True)
        for part in rest:
            console.print(Text(f"  {part}"), soft_wrap=True)
    if figures:
        console.print()
