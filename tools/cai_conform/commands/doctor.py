"""`cai-conform doctor`: a fingerprint of everything that bits may depend on."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")]


def doctor(as_json: AsJson = False) -> None:
    """Print versions, BLAS, threads, SIMD, self-tests, golden state, portability. Exit code 1 if something is wrong."""
    from cai_conformance.fingerprint import fingerprint

    found = fingerprint()
    if as_json:
        print(json.dumps(found.values, indent=2, ensure_ascii=False))
    else:
        width = max(map(len, found.values)) + 2
        for name, value in found.values.items():
            for line in _lines(value, width):
                print(f"{name:<{width}}{line}")
                name = ""
    raise typer.Exit(0 if found.sound else 1)


def _lines(value: str, indent: int) -> list[str]:
    """Return a value as it is, or, on a terminal, in lines that fit beside an indent."""
    if not sys.stdout.isatty():
        return [value]
    room = max(shutil.get_terminal_size().columns - indent - 1, 20)
    return textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [value]
