"""`cai-conform faults`: which mistakes the suites are known to catch, and the proof that they do."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output, progress, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cai_conformance.faults import Fault
    from cai_conformance.run.kill_matrix.results import FaultResult, KillMatrix

app = typer.Typer(help="Seeded faults: the mistakes that the suites are known to catch.", no_args_is_help=True)


class MatrixFormat(StrEnum):
    """How the kill matrix is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


Slug = Annotated[str, typer.Argument(metavar="SLUG", help="A fault, such as rope.half-split.")]
Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="Faults. All of them if left out.")]
Family = Annotated[
    str | None, typer.Option("--family", metavar="NAME", help="Only faults whose slug begins so, such as rope.")
]
Listed = Annotated[
    options.PlainChoice | None,
    typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out."),
]
Printed = Annotated[
    MatrixFormat | None, typer.Option("--format", "-f", help="Table on a terminal, JSON lines in a pipe, if left out.")
]
Target = Annotated[Path | None, typer.Option("--write", metavar="FILE", help="Write the matrix as one JSON document.")]
Without = Annotated[
    str | None,
    typer.Option("--without-check", metavar="NAME", help="Say which faults would be missed without this check."),
]
ByCheck = Annotated[bool, typer.Option("--by-check", help="Say of each check which faults it kills, and which alone.")]


@app.command("list")
def list_faults(family: Family = None, output_format: Listed = None) -> None:
    """List the seeded faults: slug, where each acts, and what is wrong."""
    console = output(options.ColorChoice.AUTO)
    chosen = _chosen([], family)
    if output_format is options.PlainChoice.TABLE or (output_format is None and console.is_terminal):
        _print_table([(fault.slug, fault.title) for fault in chosen])
        say(f"cai-conform: {len(chosen)} faults")
        return
    for fault in chosen:
        print(json.dumps(_as_object(fault), ensure_ascii=False))


@app.command()
def explain(slug: Slug) -> None:
    """Say what a fault does, where it was seen, where it acts, which checks must fail, and which do."""
    from cai_conformance.faults import fault_named
    from cai_conformance.faults.kinds import KINDS
    from cai_conformance.report.terminal import fold
    from cai_conformance.run.kill_matrix.file import known_kill

    fault = fault_named(slug)
    print(f"{fault.slug}: {fault.title}\n")
    print("\n".join(fold(fault.story, 78)))
    print()
    rows = [("kind", f"{kind}, {KINDS[kind]}") for kind in fault.kinds]
    rows += [("seen in", fault.precedent)] if fault.precedent else []
    rows.append(("acts in", ", ".join(sorted(place.value for place in fault.places))))
    rows += [("setting", fault.knob)] if fault.knob else []
    rows.append(("shows in", ", ".join(map(str, fault.workloads))))
    if fault.equivalent:
        rows.append(("changes", f"nothing: {fault.equivalent}"))
    elif fault.unseen:
        rows.append(("unseen", fault.unseen))
    else:
        known = known_kill(slug)
        rows += [
            ("must fail", " or ".join(fault.expected)),
            ("killed by", ", ".join(known.killed_by)),
            ("also seen", ", ".join(known.also_seen_by) or "by nothing else"),
        ]
    _print_table(rows)


@app.command()
def run(
    slugs: Slugs = None,
    family: Family = None,
    jobs: options.Jobs = None,
    output_format: Printed = None,
    write: Target = None,
    without_check: Without = None,
    by_check: ByCheck = False,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Judge the reference with each fault, and say which checks see it. Exit code 1 if one is not killed."""
    from cai_conformance.run.kill_matrix.file import matrix_bytes
    from cai_conformance.run.kill_matrix.observation import known_check
    from cai_conformance.run.kill_matrix.workers import run_faults

    if without_check is not None:
        known_check(without_check)
    chosen = _chosen(slugs or [], family)
    tasks = len({workload for fault in chosen for workload in fault.workloads})
    tasks += sum(len(fault.workloads) for fault in chosen)
    with progress("judging wrong backends", tasks) as told:
        matrix = run_faults(chosen, jobs or os.cpu_count() or 1, told)
    if write is not None:
        write.write_bytes(matrix_bytes(matrix))
    console = output(color)
    chosen_format = output_format or (MatrixFormat.TABLE if console.is_terminal else MatrixFormat.JSON)
    if by_check:
        _print_by_check(matrix, chosen_format)
    else:
        _print_matrix(matrix.results, chosen_format, console)
    problems = list(matrix.problems())
    if without_check is not None:
        problems += _missed(matrix, without_check)
    for problem in problems:
        say(f"cai-conform: {problem}")
    equivalent = sum(bool(result.fault.equivalent) for result in matrix.results)
    unseen = sum(bool(result.fault.unseen) for result in matrix.results)
    say(
        f"cai-conform: {len(matrix.results)} faults, {len(matrix.results) - equivalent - unseen} to be killed, "
        f"{equivalent} that change nothing{f', {unseen} that nobody asks for' if unseen else ''}; "
        f"{len(problems)} problems"
    )
    raise typer.Exit(1 if problems else 0)


def _chosen(slugs: Sequence[str], family: str | None) -> tuple[Fault, ...]:
    """Return the named faults, in the order of the catalogue.

    Raises:
        FaultError (unknown-fault): there is none of a slug, or of the family.
    """
    from cai_conformance.faults import FAULTS, fault_named
    from cai_conformance.faults.errors import FaultError

    wanted = {fault_named(slug).slug for slug in slugs}
    found = tuple(
        fault for fault in FAULTS if (not wanted or fault.slug in wanted) and (family is None or fault.family == family)
    )
    if not found:
        raise FaultError("unknown-fault", slug=family or "")
    return found


def _as_object(fault: Fault) -> dict[str, object]:
    return {
        "type": "fault",
        "slug": fault.slug,
        "title": fault.title,
        "story": fault.story,
        "precedent": fault.precedent,
        "kinds": list(fault.kinds),
        "places": sorted(place.value for place in fault.places),
        "vehicles": list(map(str, fault.workloads)),
        "expected": list(fault.expected),
        "equivalent": fault.equivalent,
        **({"unseen": fault.unseen} if fault.unseen else {}),
    }


def _print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print two columns without headings in 78 cells, the second folded."""
    from cai_conformance.report.terminal import Column, table_lines

    for line in table_lines((Column(""), Column("", folded=True)), rows, 78, indent=""):
        print(line.plain)


def _missed(matrix: KillMatrix, check: str) -> list[str]:
    from cai_conformance.run.kill_matrix.results import Standing

    said = {Standing.SURVIVED: "would survive", Standing.UNEXPECTED: "would be seen by chance alone"}
    return [
        f"without {check}, {result.fault.slug} {said[result.without(check)]}" for result in matrix.lost_without(check)
    ]


def _rows(results: Sequence[FaultResult]) -> list[tuple[str, str, str, str]]:
    return [
        (
            result.fault.slug,
            " ".join(map(str, (each.workload for each in result.observations))),
            " ".join(result.killed_by) or result.standing.value,
            str(len(result.also_seen_by)),
        )
        for result in results
    ]


def _print_matrix(results: Sequence[FaultResult], chosen: MatrixFormat, console: Console) -> None:
    from cai_conformance.report.terminal import Column, table_lines
    from cai_conformance.run.kill_matrix.file import document_of
    from cai_conformance.run.kill_matrix.results import SOUND

    if chosen is MatrixFormat.JSON:
        for result in results:
            document = {"type": "fault", "slug": result.fault.slug, **document_of(result)}
            print(json.dumps(document, ensure_ascii=False))
        return
    names = ("fault", "vehicles", "killed by", "also seen by")
    if chosen is MatrixFormat.MARKDOWN:
        print(f"| {' | '.join(names)} |\n|---|---|---|---|")
        for row in _rows(results):
            print(f"| `{row[0]}` | {row[1]} | {row[2]} | {row[3]} |")
        return
    columns = (Column("fault"), Column("vehicles", folded=True), Column("killed by", folded=True), Column("also"))
    styles = ["" if result.standing in SOUND else "bold red" for result in results]
    for line in table_lines(columns, _rows(results), max(console.width, 80), styles, indent=""):
        console.print(line, soft_wrap=True)


def _print_by_check(matrix: KillMatrix, chosen: MatrixFormat) -> None:
    from cai_conformance.run.kill_matrix.observation import check_names
    from cai_conformance.run.kill_matrix.results import IDLE

    kills, alone = matrix.kills(), matrix.kills_alone()
    rows = [(name, kills.get(name, ()), alone.get(name, ())) for name in check_names()]
    if chosen is MatrixFormat.JSON:
        for name, seen, only in rows:
            stays = IDLE.get(name, "")
            print(json.dumps({"type": "check", "check": name, "kills": seen, "alone": only, "stays": stays}))
        return
    if chosen is MatrixFormat.MARKDOWN:
        print("| check | kills | alone |\n|---|---|---|")
        for name, seen, only in rows:
            print(f"| `{name}` | {len(seen)} | {', '.join(f'`{slug}`' for slug in only)} |")
        return
    table = []
    for name, seen, only in rows:
        said = f"{len(seen)} faults" + (f", alone: {', '.join(only)}" if only else "")
        table.append((name, said if seen else f"none, and stays: {IDLE.get(name, 'nobody says why')}"))
    _print_table(table)
