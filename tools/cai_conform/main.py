"""The command `cai-conform`: its subcommands, and what happens when one of them raises."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cai_conform.commands import arithmetic, backends, catalogue, compare, doctor, golden, run, trace
from cai_conform.failures import explain

app = typer.Typer(
    name="cai-conform",
    help="Is a language-model backend right, or is it float noise?\n\n"
    "Runs conformance suites against a backend and says what differs, where, and by how much.\n\n"
    "Exit codes: 0 conforms, 1 does not, 2 usage or harness trouble.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

app.command("run")(run.run)
app.command("smoke")(run.smoke)
app.command("list")(catalogue.list_checks)
app.command("explain")(catalogue.explain)
app.command("trace")(trace.trace)
app.command("verify")(compare.verify)
app.command("diff")(compare.diff)
app.add_typer(golden.app, name="golden")
app.add_typer(arithmetic.app, name="arithmetic")
app.add_typer(backends.app, name="backends")
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        from cai_reference import __version__

        print(f"cai-conform {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command line; errors of our own become a sentence, a next command and an exit code."""
    from cai_conformance.errors import ConformanceError
    from cai_reference.errors import CaiReferenceError

    try:
        app()
    except (ConformanceError, CaiReferenceError) as error:
        sys.exit(explain(error))
    except BrokenPipeError:
        # The reader of a pipe went away; nothing is wrong, and Python must not complain while it closes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
