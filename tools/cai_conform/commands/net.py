"""`cai-conform net`: nets of the CAI NEURAL API, outlined, verified, decoded, imported and exported."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from cai_conformance.nets.screens import Line

app = typer.Typer(
    name="net", help="Nets of the CAI NEURAL API: .nn files, whichever program wrote them.", no_args_is_help=True
)


class NetFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


NetPath = Annotated[Path, typer.Argument(metavar="FILE.nn", help="A net.", show_default=False)]
SamplePath = Annotated[
    Path, typer.Argument(metavar="FILE.json", help="What was measured on it; its siblings are used, too.")
]
Format = Annotated[
    NetFormat | None,
    typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out."),
]
ArithmeticName = Annotated[str, typer.Option("--arithmetic", "-a", metavar="NAME", help="strict, libm or fast.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what did not pass, and the summary.")]


def _tolerance(of: str) -> object:
    return typer.Option(min=0.0, metavar="ERROR", help=f"The largest error of {of} that passes.")


RowTolerance = Annotated[float, _tolerance("output probabilities")]
GradientTolerance = Annotated[float, _tolerance("gradients, relative to the largest of their layer,")]
WeightTolerance = Annotated[float, _tolerance("weights after a fit")]
ReportTolerance = Annotated[float, _tolerance("the losses and errors of fit steps")]


@app.command()
def verify(
    file: NetPath,
    sample: SamplePath,
    tolerance_rows: RowTolerance = 1e-5,
    tolerance_gradients: GradientTolerance = 5e-5,
    tolerance_weights: WeightTolerance = 5e-5,
    tolerance_reports: ReportTolerance = 5e-5,
    arithmetic: ArithmeticName = "fast",
    output_format: Format = None,
    color: options.Color = options.ColorChoice.AUTO,
    quiet: Quiet = False,
) -> None:
    """Run a net and compare it with what the library measured: outputs, tokens, sessions, gradients, fits.

    Exit code 1 if a value is over its tolerance, 2 if a file cannot be used.
    """
    from cai_conformance.nets.verification_report import verification_lines, verification_objects
    from cai_conformance.nets.verifying import Tolerances, verify_net
    from cai_reference.arithmetic import named

    tolerances = Tolerances(tolerance_rows, tolerance_gradients, tolerance_weights, tolerance_reports)
    found = verify_net(file, sample, tolerances, named(arithmetic))
    console = output(color)
    if as_table(output_format, console):
        print_lines(console, verification_lines(found, console.width, quiet=quiet))
    else:
        print_objects(verification_objects(found, quiet=quiet))
    raise typer.Exit(0 if found.passed else 1)


def as_table(chosen: NetFormat | None, console: Console) -> bool:
    """Whether results are printed as a table: if that was asked for, or on a terminal if nothing was."""
    return chosen is NetFormat.TABLE or (chosen is None and console.is_terminal)


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines as they are: they have been made to fit."""
    from rich.text import Text

    for line in lines:
        console.print(Text(line.text, line.style), soft_wrap=True)


def print_objects(objects: Iterable[dict[str, object]]) -> None:
    """Print one JSON object a line."""
    for value in objects:
        print(json.dumps(value, allow_nan=False, ensure_ascii=False))
