"""`cai-conform doctor`: a fingerprint of everything that bits may depend on."""

from __future__ import annotations

import json
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")]


def doctor(as_json: AsJson = False) -> None:
    """Print versions, BLAS, threads, SIMD, self-tests and golden state. Exit code 1 if something is wrong."""
    from cai_conformance.fingerprint import fingerprint

    found = fingerprint()
    if as_json:
        print(json.dumps(found.values, indent=2, ensure_ascii=False))
    else:
        width = max(map(len, found.values))
        for name, value in found.values.items():
            print(f"{name:<{width}}  {value}")
    raise typer.Exit(0 if found.sound else 1)
