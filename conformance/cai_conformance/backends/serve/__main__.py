"""A Python engine as a program: `python -m cai_conformance.backends.serve module:attribute`.

The attribute is an engine, or what returns one when it is called. Whatever it prints goes to standard error, so that it
cannot get between the answers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import cast

from cai_conformance.backends.errors import one_line
from cai_conformance.backends.serve.server import serve
from cai_conformance.engine import Engine
from cai_conformance.errors import BackendError, ConformanceError


def engine_of(spec: str) -> Engine:
    """Return the engine that a specification names.

    Raises:
        BackendError (engine-not-importable): it names none.
    """
    module, separator, attribute = spec.partition(":")
    if not separator or not module or not attribute:
        raise BackendError("engine-not-importable", spec=spec, problem="a specification is module:attribute")
    try:
        found: object = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
        if isinstance(found, type) or (callable(found) and not hasattr(found, "evaluate")):
            found = found()
    # Whatever a foreign module raises on import is the reason to report.
    except (Exception, SystemExit) as error:
        raise BackendError("engine-not-importable", spec=spec, problem=one_line(error)) from error
    for name in ("description", "load", "evaluate", "clear", "close"):
        if not hasattr(found, name):
            raise BackendError("engine-not-importable", spec=spec, problem=f"it has no {name}")
    return cast("Engine", found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the engine that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cai_conformance.backends.serve", description="Serve a Python engine."
    )
    parser.add_argument("engine", metavar="MODULE:ATTRIBUTE", help="an engine, or what returns one")
    parser.add_argument("--validate", action="store_true", help="hold every message against its JSON Schema")
    options = parser.parse_args(arguments)
    answers = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answers, "wb") as stdout:
        try:
            serve(engine_of(options.engine), sys.stdin.buffer, stdout, validate=options.validate)
        except ConformanceError as error:
            print(" ".join(part for part in (str(error), error.next_command) if part), file=sys.stderr)
            return error.exit_code
        except BrokenPipeError:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
