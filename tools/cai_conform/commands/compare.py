"""`cai-conform verify` and `cai-conform diff`: judge a file, or hold two against each other. No backend is run."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Annotated, BinaryIO

import typer

from cai_conform import options
from cai_conform.commands.run import judged, make_report, show
from cai_conform.terminal import say

STANDARD_INPUT = "-"

TraceFile = Annotated[str, typer.Argument(metavar="FILE", help="A trace; - reads standard input.")]
First = Annotated[str, typer.Argument(metavar="A", help="The expected trace; - reads standard input.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The other trace; - reads standard input.")]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many differences to print.")]


def verify(
    file: TraceFile,
    expression: options.Filter = None,
    output_format: options.OutputFormat = None,
    color: options.Color = options.ColorChoice.AUTO,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Judge a trace file, whoever wrote it.

    Prints one line: what holds, or the first thing that does not. Exit code 2 for grammar or envelope, 1 for values.
    --verbose or --format print the whole report instead.
    """
    from cai_conformance.backends.trace_file import TraceFileBackend
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.verify import Verification, verification_of

    with open_trace(file) as trace:
        verification: Verification = verification_of(TraceFileBackend(file, trace), GoldenStore(locate()))
        verdicts, _ = judged([verification.run], verification.backend, expression, jobs=1)
    report = make_report(verification.backend.name, [verification.run], verdicts)
    if output_format is not None or verbose:
        show(report, output_format, color, quiet=quiet, verbose=verbose)
    else:
        print(verification.summary(report))
    raise typer.Exit(report.exit_code())


def diff(expected: First, found: Second, limit: Limit = 20) -> None:
    """Compare two traces record by record, aligned by key. Exit code 1 if they differ."""
    from cai_conformance.errors import InputError
    from cai_conformance.run.verify import differences_between

    if expected == found == STANDARD_INPUT:
        raise InputError("input-unreadable", path=STANDARD_INPUT, problem="standard input holds one trace, not two")
    with open_trace(expected) as left, open_trace(found) as right:
        comparison = differences_between(left, right, (expected, found))
    for note in comparison.notes:
        say(f"cai-conform: {note}")
    for difference in comparison.differences[:limit]:
        print(difference)
    rest = len(comparison.differences) - limit
    if rest > 0:
        say(f"cai-conform: {rest} more; --limit prints them")
    if not comparison.differences:
        say("cai-conform: no difference")
    raise typer.Exit(1 if comparison.differences else 0)


def open_trace(path: str) -> BinaryIO:
    """Open a trace file, or read standard input.

    Raises:
        InputError (input-unreadable): the operating system refuses; a device does not end; a line of standard input is
            beyond the limit.
        InputError (input-too-large): a file is beyond the limit.
    """
    from cai_conformance.backends import trace_file

    if path != STANDARD_INPUT:
        return trace_file.open_file(path)
    return BytesIO(trace_file.read_stream(_standard_input(), path))


def read_file(path: str) -> bytes:
    """Read a file or standard input, as much of it as a trace may have.

    Raises:
        InputError (input-unreadable): the operating system refuses, or a device does not end.
        InputError (input-too-large): there is more.
    """
    from cai_conformance.backends import trace_file
    from cai_conformance.errors import InputError
    from cai_conformance.trace.parse import FILE_LIMIT

    if path != STANDARD_INPUT:
        return trace_file.read_file(path)
    try:
        data = _standard_input().read(FILE_LIMIT + 1)
    except OSError as error:
        raise InputError("input-unreadable", path=path, problem=error.strerror or str(error)) from None
    if len(data) > FILE_LIMIT:
        raise InputError("input-too-large", path=path, size=len(data), limit=FILE_LIMIT)
    return data


def _standard_input() -> BinaryIO:
    from cai_conformance.errors import InputError

    if sys.stdin is None:
        raise InputError("input-unreadable", path=STANDARD_INPUT, problem="standard input is closed")
    return sys.stdin.buffer
