"""`cai-conform list` and `cai-conform explain`: what there is, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from cai_conformance.suites import Check, Suite

Name = Annotated[
    str,
    typer.Argument(metavar="ID", help="A suite, a check (suite::check or suite::check[case]), a verdict or a level."),
]


def list_checks(
    suites: options.Suites = None, expression: options.Filter = None, color: options.Color = options.ColorChoice.AUTO
) -> None:
    """List suites and their checks: a table on a terminal, one id a line in a pipe."""
    from cai_conformance.errors import SelectionError
    from cai_conformance.run.questions import compile_expression
    from cai_conformance.suites import find_suites

    selected = compile_expression(expression) if expression is not None else (lambda _: True)
    chosen = find_suites(suites or [])
    names = [name for suite in chosen for name in suite.check_ids() if selected(name)]
    if not names:
        raise SelectionError("nothing-selected", expression=expression or "")
    console = output(color)
    if not console.is_terminal:
        print("\n".join(names))
        return
    for suite in chosen:
        console.print(f"[bold]{suite.identifier}[/bold] {suite.version}  {suite.title}")
        rows = []
        for check in suite.checks:
            cases = [case for case in check.cases if selected(f"{suite.identifier}::{check.name}[{case}]")]
            if cases or selected(f"{suite.identifier}::{check.name}"):
                count = f" ({len(check.cases)} cases)" if check.cases else ""
                rows.append((check.level.value, check.name, f"{check.summary}{count}"))
        for line in _check_lines(rows, console.width):
            console.print(line, soft_wrap=True)


def explain(name: Name) -> None:
    """Say what a suite, a check, a verdict or a level is, and what to do about it."""
    from cai_conformance.report.words import VERDICTS
    from cai_conformance.suites import SUITES, find_check, find_suite
    from cai_conformance.verdicts import Level

    if name.lower() in VERDICTS:
        print(_filled(f"{name.lower()}: {VERDICTS[name.lower()]}"))
    elif name.upper() in Level.__members__:
        level = Level[name.upper()]
        print(f"{level.value}: {level.meaning}, in the {level.track} track")
    elif name and any(suite.identifier.endswith(name) for suite in SUITES):
        _explain_suite(find_suite(name))
    else:
        _explain_check(*find_check(name))


def _explain_suite(suite: Suite) -> None:
    print(f"{suite.identifier} {suite.version}: {suite.title}\n")
    print(_filled(suite.description))
    print(f"\ngolden recorded in {suite.arithmetic}; profiles: {', '.join(suite.grammar.profiles)}\n")
    for line in _check_lines([(check.level.value, check.name, check.summary) for check in suite.checks], 10_000):
        print(line.plain)


def _explain_check(suite: Suite, check: Check, case: str) -> None:
    print(f"{suite.identifier}::{check.name}, level {check.level.value} ({check.level.meaning})\n")
    print(_filled(f"Passes if {check.summary}."))
    print()
    print(_filled(check.explanation))
    _print_witnesses(check, case)
    if check.requires:
        print(f"\nblocked unless these pass: {', '.join(check.requires)}")
    sees = {item.case: item.sees for item in suite.cases() if item.check == check.name}
    for name in check.cases:
        if not case or name == case:
            print(f"\n  [{name}]" + (f" catches: {sees[name]}" if name in sees else ""), end="")
    print(f"\nrun it alone: cai-conform run {suite.identifier} -k {check.name}" if not check.cases else "", end="")
    print(f"\n\nrun it alone: cai-conform run {suite.identifier} -k {check.name}" if check.cases else "")


def _print_witnesses(check: Check, case: str) -> None:
    """Print what has to be met: of one case, or of all cases, with those that need it where not all do."""
    from cai_conformance.report.terminal import fold

    needed = [witness for witness in check.witnesses if not case or witness.needed_in(case)]
    if needed:
        print("\nmust have met, or a pass is none:")
    for witness in needed:
        cases = [name for name in check.cases if witness.needed_in(name)]
        some = "" if case or cases == list(check.cases) else f" [{', '.join(cases)}]"
        print("  " + "\n      ".join(fold(f"{witness}{some}", 72)))


def _check_lines(rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[Text]:
    from cai_conformance.report.terminal import Column, table_lines

    return table_lines((Column(""), Column(""), Column("", folded=True)), rows, width)


def _filled(text: str) -> str:
    from cai_conformance.report.terminal import fold

    return "\n".join(fold(text, 78))
