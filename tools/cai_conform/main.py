"""The command `cai-conform`: its subcommands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from cai_conform.commands import (
    arithmetic,
    backends,
    bakeoff,
    catalogue,
    chat,
    compare,
    doctor,
    generate,
    golden,
    net,
    published,
    run,
    tokenizer,
    trace,
)
from cai_conform.failures import Commands, explain_refusal
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

app.command("run")(run.run)
app.command("smoke")(run.smoke)
app.command("list")(catalogue.list_checks)
app.command("explain")(catalogue.explain)
app.command("trace")(trace.trace)
app.command("verify")(compare.verify)
app.command("diff")(compare.diff)
app.command("generate")(generate.generate)
app.command("chat")(chat.chat)
app.command("published")(published.published)
app.command("bakeoff")(bakeoff.bakeoff)
app.add_typer(net.app, name="net")
app.add_typer(golden.app, name="golden")
app.add_typer(arithmetic.app, name="arithmetic")
app.add_typer(backends.app, name="backends")
app.add_typer(tokenizer.app, name="tokenizer")
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
    """Run the command line."""
    prepare_streams()
    try:
        app()
    except OSError as error:
        # Help and version are printed before any command is invoked.
        raise SystemExit(explain_refusal(error)) from None


if __name__ == "__main__":
    main()
