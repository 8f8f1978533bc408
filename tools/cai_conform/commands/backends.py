"""`cai-conform backends`: which implementations can be judged by name."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

import typer

app = typer.Typer(help="The implementations that can be judged.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `list` a subcommand."""


@app.command("list")
def list_backends() -> None:
    """List backends by name, and why one cannot be used."""
    from cai_conformance.backends.registry import ENTRY_POINT_GROUP
    from cai_conformance.backends.registry import list_backends as listed

    with redirect_stdout(sys.stderr):
        found = listed()
    for backend in found:
        print(f"{backend.name}  {backend.source}" + (f"  cannot be used: {backend.problem}" if backend.problem else ""))
    print("serve:COMMAND  a program that is driven line by line")
    print("exec:COMMAND  a program that prints traces")
    print("trace:FILE  a recorded trace")
    print("module:attribute  an engine or a backend as a Python object")
    print(f"entry points are looked for in the group {ENTRY_POINT_GROUP}")
