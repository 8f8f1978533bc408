"""`cai-conform golden`: whether the goldens agree, what would change, and changing them with a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cai_conform import options
from cai_conform.terminal import progress, say

app = typer.Typer(help="Frozen traces: their state, what would change, and accepting a change.", no_args_is_help=True)

Pythons = Annotated[
    list[str] | None,
    typer.Option("--python", metavar="PROGRAM", help="Another interpreter, with another NumPy; may be repeated."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the table goes, such as portability.json.")
]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why the golden changes; it goes into the ledger.")]


@app.command()
def status() -> None:
    """Say whether goldens, manifest and ledger agree. Exit code 1 if they do not."""
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.suites import SUITES

    store = GoldenStore(locate())
    found = store.status()
    for entry in found:
        listed = store.entry(entry.suite) if entry.agrees and entry.suite else None
        if listed is not None:
            print(
                f"{entry.suite}: agrees ({listed.records} records, version {listed.suite_version}, {listed.arithmetic})"
            )
        for finding in entry.findings:
            print(f"{entry.suite or store.root.name}: {finding.state.value}: {finding.path}: {finding.problem}")
    known = {suite.identifier for suite in SUITES}
    missing = sorted(known - set(store.suites()))
    stale = sorted(set(store.suites()) - known)
    for name in missing:
        print(f"{name}: missing: no golden was accepted")
    for name in stale:
        print(f"{name}: unlisted: no suite has this name")
    agrees = all(entry.agrees for entry in found)
    if not agrees:
        say("cai-conform: if accepting was interrupted, run it again")
    changes = len(store.history())
    say(f"cai-conform: {store.root}, {changes} accepted change{'' if changes == 1 else 's'}")
    raise typer.Exit(1 if missing or stale or not agrees else 0)


@app.command()
def review(suites: options.Suites = None) -> None:
    """Record the suites anew and show what differs from the goldens. Nothing is written; exit code 1 on a change."""
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.record import propose
    from cai_conformance.run.verify import review_lines
    from cai_conformance.suites import find_suites

    store = GoldenStore(locate())
    changed = False
    for suite in find_suites(suites or []):
        with progress(f"recording {suite.identifier}"):
            candidate = propose(suite)
        lines = review_lines(store, candidate)
        changed = changed or bool(lines)
        for line in lines or [f"{suite.identifier}: no change"]:
            print(line)
    raise typer.Exit(1 if changed else 0)


@app.command()
def accept(reason: Reason, suites: options.Suites = None) -> None:
    """Record the suites anew and make the result their golden: files, ledger and manifest, in this order."""
    from cai_conformance.fixtures.goldens.store import GoldenStore, check_change, locate
    from cai_conformance.run.record import propose_checked
    from cai_conformance.suites import find_suites

    store = GoldenStore(locate())
    check_change(reason)
    store.check_writable()
    candidates = []
    for suite in find_suites(suites or []):
        with progress(f"recording and judging {suite.identifier}"):
            candidates.append(propose_checked(suite))
    entries = store.accept_all(candidates, reason=reason)
    for entry in entries:
        files = ", ".join(change.name for change in entry.files) or "manifest only"
        print(f"{entry.suite}: accepted as change {entry.sequence} ({files})")
    if not entries:
        say("cai-conform: no change, nothing written")


@app.command()
def settings(suites: options.Suites = None, jobs: options.Jobs = None) -> None:
    """Record the suites under other BLAS kernels, threads, SIMD levels and C libraries. Exit code 1 on a change."""
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.portability.matrix import check_portability
    from cai_conformance.run.portability.settings import settings_table
    from cai_conformance.suites import find_suites

    chosen = find_suites(suites or [])
    results = []
    with progress("recording under other settings", len(chosen) * (len(settings_table()) + 1)) as advance:
        for result in check_portability(chosen, GoldenStore(locate()), jobs or os.cpu_count() or 1):
            advance(result.setting)
            results.append(result)
    for result in results:
        print(f"{result.suite}: {result.setting}: {result.found}")
    raise typer.Exit(0 if all(result.same for result in results) else 1)


@app.command()
def portability(
    suites: options.Suites = None, pythons: Pythons = None, output: Output = None, jobs: options.Jobs = None
) -> None:
    """Record the suites in every arithmetic under every setting, and class each record: the portability table.

    Suites that a file already has are replaced, the others stay. Exit code 1 if a record moves in strict arithmetic.
    """
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.portability import table
    from cai_conformance.run.portability.matrix import record_tables
    from cai_conformance.run.portability.table import suite_lines
    from cai_conformance.suites import find_suites

    chosen, portable = find_suites(suites or []), True
    known = table.of_file(output) if output is not None and suites else None
    with progress("recording under every setting") as advance:
        for one in record_tables(chosen, GoldenStore(locate()), pythons or [], jobs or os.cpu_count() or 1, advance):
            known = one if known is None else known.joined(one, str(output))
            if output is not None:
                output.write_bytes(table.write(known))
            portable = portable and one.strict_is_invariant
            for line in suite_lines(one):
                say(line)
    raise typer.Exit(0 if portable else 1)
