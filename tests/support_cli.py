"""Running the command line: in this process for its logic, and as a program of its own for what only a process has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from typer import testing
from typer.main import get_command
from typer.testing import CliRunner

import cai_conform
import cai_conformance
import cai_reference
from cai_conform.main import app

# The runner makes the tree of commands anew for every call, which takes longer than most commands do. It is always the
# same tree, so it is made once.
vars(testing)["_get_command"] = cache(get_command)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """The lines on standard error, without the hint of the next command."""
        return [line for line in self.err.splitlines() if not line.startswith("try: ")]


def invoke(*arguments: object, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Result:
    """Run a command in this process; an exception that the program does not handle is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Result(result.exit_code, result.stdout, result.stderr)


def output_bytes(*arguments: object) -> bytes:
    """Run a command in this process that must succeed, and return the bytes of its standard output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert 0 == result.exit_code, result.stderr
    return result.stdout_bytes


def environment_of(**variables: str) -> dict[str, str]:
    """Return an environment without CI in which another interpreter finds the packages under test, installed or not."""
    packages = (cai_reference, cai_conformance, cai_conform)
    roots = dict.fromkeys(str(Path(package.__file__ or "").parents[1]) for package in packages)
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "FORCE_COLOR")}
    paths = [*roots, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **variables}


def command(*arguments: object) -> list[str]:
    """Return the command line of the program under this interpreter."""
    return [sys.executable, "-m", "cai_conform.main", *map(str, arguments)]


def program(
    *arguments: object, stdin: bytes = b"", folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own, with further variables of the environment, and wait for it."""
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        cwd=folder,
        env=environment_of(**(variables or {})),
        timeout=120,
        check=False,
    )
