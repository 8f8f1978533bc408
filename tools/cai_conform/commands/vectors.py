"""`cai-conform vectors`: given weights and vectors as folders that engines and other programs load."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cai_conform.terminal import say

app = typer.Typer(help="Given weights and vectors, as folders for engines.", no_args_is_help=True)


class LayoutChoice(StrEnum):
    """How weights are named and laid out."""

    HF = "hf"
    NATIVE = "native"


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where a folder a suite is made.")]
Suites = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SUITE]...", help="Suite ids or unique endings. All that have the layout if left out."),
]
Layout = Annotated[
    LayoutChoice, typer.Option("--layout", help="native: the reference's names; hf: a model that engines load.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace folders of an earlier export.")]


@app.callback()
def _group() -> None:
    """Keep `export` a subcommand, although it is the only one."""


@app.command()
def export(folder: Folder, suites: Suites = None, layout: Layout = LayoutChoice.NATIVE, force: Force = False) -> None:
    """Write weights, vectors and trace of the suites as folders. Nothing is replaced without --force."""
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run import export as exporting
    from cai_conformance.suites import find_suites

    wanted, store = exporting.Layout(layout.value), GoldenStore(locate())
    chosen = [suite for suite in find_suites(suites or []) if suites or exporting.can_export(suite, wanted)]
    contents = {
        suite.identifier: exporting.contents_of(suite, store.read(suite.identifier), wanted) for suite in chosen
    }
    for path in exporting.write_folders(folder, contents, force=force):
        print(f"{path}: {', '.join(sorted(contents[path.name]))}")
    say(f"cai-conform: {len(contents)} folder{'' if len(contents) == 1 else 's'} in layout {wanted.value}")
