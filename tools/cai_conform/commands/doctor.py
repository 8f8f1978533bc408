"""`cai-conform doctor`: a fingerprint of everything that bits may depend on."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")]


def doctor(as_json: AsJson = False) -> None:
    """Print versions, BLAS, threads, SIMD, self-tests, golden state, portability. Exit code 1 if something is wrong."""
    from cai_conformance.run.fingerprint import fingerprint

    found = fingerprint()
    if as_json:
        print(json.dumps(found.values, indent=2, ensure_ascii=False))
    else:
        from cai_conformance.report.terminal import Column, table_lines

        # In a pipe nothing is folded; a full last column would start a new line.
        width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 10_000
        for line in table_lines((Column(""), Column("", folded=True)), list(found.values.items()), width, indent=""):
            print(line.plain)
    raise typer.Exit(0 if found.sound else 1)
