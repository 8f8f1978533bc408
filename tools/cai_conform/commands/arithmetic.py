"""`cai-conform arithmetic`: the arithmetic's own tests."""

from __future__ import annotations

import typer

app = typer.Typer(help="The arithmetic that goldens are recorded in.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `selftest` a subcommand."""


@app.command()
def selftest() -> None:
    """Check strict/1 against its vectors, and the C library against the published one. Exit code 1 on a fault."""
    from cai_reference.arithmetic.selftest import c_library_selftest, run_selftest

    failed = False
    for result in run_selftest():
        failed = failed or not result.passed
        print(f"strict/1 {result.name}: {'pass' if result.passed else 'FAIL'} ({result.cases} cases)")
        for failure in result.failures:
            print(f"  {failure}")
    library = c_library_selftest()
    if library.passed:
        print(f"libm/1 on {library.library}: the published bits ({library.cases} cases)")
    else:
        differing = ", ".join(library.differing)
        print(
            f"libm/1 on {library.library}: other bits than the published ones for {differing}; no fault, but published"
        )
        print("  digests of functions used there are skipped on this machine")
    raise typer.Exit(1 if failed else 0)
