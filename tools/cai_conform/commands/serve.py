"""`cai-conform serve`: an engine of ours, or one in Python, as a program that speaks the serve protocol."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cai_conform import options

Engine = Annotated[
    str,
    typer.Argument(
        metavar="ENGINE", help="reference, torch[:FORMAT], transformers[:FORMAT] or module:attribute of an engine."
    ),
]


def serve(
    engine: Engine = "reference", arithmetic: options.ArithmeticName = "strict", validate: options.Validate = False
) -> None:
    """Answer the serve protocol on standard input and output, until told to stop.

    So that a client can be tried against a known engine, and a Python engine can
    be judged from a process of its own: `run --backend "serve:cai-conform serve ENGINE"`.
    """
    from cai_conform.subject import look_in_working_directory
    from cai_conformance.backends.registry import open_engine
    from cai_conformance.backends.serve.server import serve as answer

    look_in_working_directory()
    # Whatever an engine prints must not get between the answers.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with os.fdopen(answers, "wb") as stdout:
        answer(open_engine(engine, arithmetic or "strict"), sys.stdin.buffer, stdout, validate=validate)
