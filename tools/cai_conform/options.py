"""Options that several commands share, each with its help text.

Only light modules are imported here and in the command modules: whatever needs numbers is imported when a command runs.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

JUDGING: Final = "Judge a backend"
"""The heading of the help page below which the commands stand that judge."""


class ColorChoice(StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class FormatChoice(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


class PlainChoice(StrEnum):
    """How results are printed that have no other form."""

    TABLE = "table"
    JSON = "json"


class ViewChoice(StrEnum):
    """Which part of a trace is printed."""

    TRACE = "trace"
    BODY = "body"
    REPORT = "report"


Suites = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SUITE]...", help="Suite ids or unique endings, such as ngram. All suites if left out."),
]
SuiteName = Annotated[str, typer.Argument(metavar="SUITE", help="A suite id or a unique ending, such as ngram.")]
BackendSpec = Annotated[
    str,
    typer.Option(
        "--backend",
        "-b",
        metavar="SPEC",
        help="reference, torch, transformers, serve:COMMAND, exec:COMMAND, trace:FILE, module:attribute.",
    ),
]
ArithmeticName = Annotated[
    str | None,
    typer.Option("--arithmetic", "-a", metavar="NAME", help="strict, libm or fast. The suite's own if left out."),
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="What may differ: exact, ulp:N, measured; auto is exact in strict arithmetic, else measured.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long a program may take for each answer."),
]
Validate = Annotated[
    bool, typer.Option("--validate", help="Hold every message of the serve protocol against its JSON Schema.")
]
CorpusFile = Annotated[
    Path | None,
    typer.Option("--corpus", metavar="FILE", help="A corpus (JSON, at most 1 MiB) instead of the embedded one."),
]
SplitsFile = Annotated[
    Path | None, typer.Option("--splits", metavar="FILE", help="The split manifest of the corpus (JSON).")
]
StoriesFile = Annotated[
    Path | None,
    typer.Option("--stories", metavar="FILE", help="Stories (text, at most 64 MiB) instead of the generated ones."),
]
Examples = Annotated[
    int,
    typer.Option("--examples", min=0, metavar="N", help="Training examples of a decode suite; 0 for its own number."),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="edges: the vector cases; published: the published size."),
]
Filter = Annotated[
    str | None,
    typer.Option("-k", metavar="EXPRESSION", help="Only checks whose id matches, such as 'golden and not bits'."),
]
OutputFormat = Annotated[
    FormatChoice | None, typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs beside each other; one a processor if left out."),
]
Color = Annotated[ColorChoice, typer.Option("--color", help="auto heeds NO_COLOR and the terminal.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what did not pass, and the summary.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Details and times of what passed, too.")]
