"""The command `cai-conform`: its subcommands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from cai_conform.commands import (
    arithmetic,
    backends,
    catalogue,
    compare,
    doctor,
    faults,
    golden,
    probe,
    run,
    serve,
    shrink,
    trace,
    vectors,
)
from cai_conform.failures import Commands, explain_refusal
from cai_conform.options import JUDGING
from cai_conform.terminal import prepare_streams

app = typer.Typer(
    name="cai-conform",
    cls=Commands,
    help="Is a language-model backend right, or is it float noise?\n\n"
    "Runs conformance suites against a backend and says what differs, where, and by how much.\n\n"
    "Exit codes: 0 conforms, 1 does not, 2 usage or harness trouble.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

FREEZING = "Goldens and what they rest on"

app.command("run", rich_help_panel=JUDGING)(run.run)
app.command("smoke", rich_help_panel=JUDGING)(run.smoke)
app.command("probe", rich_help_panel=JUDGING)(probe.probe)
app.command("shrink", rich_help_panel=JUDGING)(shrink.shrink)
app.command("serve", rich_help_panel=JUDGING)(serve.serve)
app.command("list", rich_help_panel=JUDGING)(catalogue.list_checks)
app.command("explain", rich_help_panel=JUDGING)(catalogue.explain)
app.command("trace", rich_help_panel=JUDGING)(trace.trace)
app.command("verify", rich_help_panel=JUDGING)(compare.verify)
app.command("diff", rich_help_panel=JUDGING)(compare.diff)
app.add_typer(backends.app, name="backends", rich_help_panel=JUDGING)
app.add_typer(faults.app, name="faults", rich_help_panel=JUDGING)
app.add_typer(golden.app, name="golden", rich_help_panel=FREEZING)
app.add_typer(vectors.app, name="vectors", rich_help_panel=FREEZING)
app.add_typer(arithmetic.app, name="arithmetic", rich_help_panel=FREEZING)
app.command("doctor", rich_help_panel=FREEZING)(doctor.doctor)


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
    """Run the command line."""
    prepare_streams()
    try:
        app()
    except OSError as error:
        # Help and version are printed before any command is invoked.
        raise SystemExit(explain_refusal(error)) from None


if __name__ == "__main__":
    main()
