"""`cai-conform shrink`: from a check that fails to the smallest model and prompt on which it still fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.commands.probe import DrivenSpec, find_driven
from cai_conform.subject import closing_backend, selection
from cai_conform.terminal import output, progress, say

if TYPE_CHECKING:
    from rich.console import Console

    from cai_conformance.backends.engine.given_model import GivenModel
    from cai_conformance.run.shrink.failures import Found, Look, Smallest


Target = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Where the smallest case is written; below shrunk/ if left out."
    ),
]
Trials = Annotated[int, typer.Option("--trials", min=1, metavar="N", help="How many cases are tried at most.")]
Printed = Annotated[
    options.PlainChoice | None, typer.Option("--format", "-f", help="Table on a terminal, JSON in a pipe, if left out.")
]


def shrink(
    suite: options.SuiteName,
    backend: DrivenSpec = "reference",
    arithmetic: options.ArithmeticName = None,
    expression: options.Filter = None,
    target: Target = None,
    trials: Trials = 600,
    policy: options.PolicyName = "auto",
    timeout: options.Timeout = None,
    validate: options.Validate = False,
    output_format: Printed = None,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Make a failure small: fewer layers, heads, channels, ids, tokens and steps, as long as the same check fails.

    The first check that fails on the suite's given weights is taken; -k chooses.
    Prints what is left, and the command that replays it.
    """
    from cai_conformance.checks.tolerance.policy import parse_policy
    from cai_conformance.run.shrink.failures import identifiers_of, look, smallest
    from cai_conformance.run.shrink.models import SmallModel
    from cai_conformance.run.shrink.replay import check_free, replay_command, write_case
    from cai_conformance.run.shrink.trial import driver_of, trials_on

    name, given = _given(suite)
    selected, rule = selection(expression, identifiers_of(name)), parse_policy(policy)
    if target is not None:
        check_free(target)
    subject = find_driven(backend, arithmetic, seconds=timeout, validate=validate)
    console = output(color)
    printed = output_format or (options.PlainChoice.TABLE if console.is_terminal else options.PlainChoice.JSON)
    with closing_backend(subject), trials_on(driver_of(subject, arithmetic), given, rule) as tried:
        with progress(f"looking at {subject.name}"):
            seen = look(tried, SmallModel.of(given), name, selected)
        if seen.found is None:
            raise typer.Exit(_nothing(seen, name, backend, printed))
        folder = target or _usual_folder(name, seen.found)
        check_free(folder)
        with progress(f"shrinking {seen.found.check.identifier}", trials) as advance:
            found = smallest(seen.found, name, tried, trials, advance)
    command = replay_command(found, backend, str(folder), _further(arithmetic, policy, timeout))
    write_case(found, given, folder, backend, command)
    if printed is options.PlainChoice.JSON:
        print(json.dumps(_as_object(found, backend, folder, command), ensure_ascii=False))
    else:
        _print(found, backend, folder, command, console)
    if found.only_own:
        say(
            f"cai-conform: {backend} loads no other model than the suite's, so only the prompt was shrunk: "
            f"{found.only_own}"
        )
    raise typer.Exit(2 if found.only_own else 1)


def _usual_folder(suite: str, found: Found) -> Path:
    return Path("shrunk") / f"{suite}-{found.check.identifier.replace('[', '-').rstrip(']')}"


def _given(suite: str) -> tuple[str, GivenModel]:
    """Return the full id of a suite, and the model that it gives.

    Raises:
        SelectionError (unknown-suite, ambiguous-suite): it names no suite, or several.
        SelectionError (no-model-given): the suite gives no model.
        GoldenError: the suite's own files are missing or damaged.
    """
    from cai_conformance.backends.engine.given_model import GivenModel
    from cai_conformance.errors import SelectionError
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.questions import Options, question_for
    from cai_conformance.suites import find_suite

    found = find_suite(suite)
    request = question_for(found, GoldenStore(locate()), Options("strict", profile="edges")).request
    given = GivenModel.of(request)
    if given is None:
        raise SelectionError("no-model-given", suite=found.identifier)
    return found.identifier, given


def _further(arithmetic: str | None, policy: str, timeout: float | None) -> list[str]:
    """Return the options that a replay needs as well."""
    given = (("--arithmetic", arithmetic), ("--timeout", None if timeout is None else f"{timeout:g}"))
    further = [word for name, value in given if value is not None for word in (name, value)]
    return further if policy == "auto" else [*further, "--policy", policy]


def _nothing(seen: Look, suite: str, backend: str, printed: options.PlainChoice) -> int:
    """Say that nothing fails, or that nothing could be judged; return the exit code."""
    if printed is options.PlainChoice.JSON:
        document = {"type": "shrunk", "suite": suite, "backend": backend, "check": None, "passed": seen.passed}
        print(json.dumps(document, ensure_ascii=False))
    if seen.passed:
        say(f"cai-conform: nothing fails on {suite}: {seen.passed} checks passed, so there is nothing to shrink")
        return 0
    reason = f": {seen.reasons[0]}" if seen.reasons else ""
    say(f"cai-conform: nothing was judged{reason}")
    return 2


def _as_object(found: Smallest, backend: str, folder: Path, command: str) -> dict[str, object]:
    from cai_conformance.run.shrink.replay import facts_of, remaining

    return {
        "type": "shrunk",
        "suite": found.suite,
        "backend": backend,
        "check": found.check.identifier,
        "first": facts_of(found.first),
        "last": facts_of(found.last),
        "remaining": remaining(found.last),
        "trials": found.trials,
        "finished": found.finished,
        "outcome": found.last_judged.outcome.value,
        "message": found.last_judged.message,
        "notes": list(found.notes),
        "folder": str(folder),
        "command": command,
    }


def _print(found: Smallest, backend: str, folder: Path, command: str, console: Console) -> None:
    """Print what was and what is left, at most as wide as the terminal; the command stays on one line."""
    from rich.text import Text

    from cai_conformance.report.terminal import Column, paragraph, printable, table_lines
    from cai_conformance.run.shrink.replay import facts_of, remaining

    width = min(max(console.width, 60), 100)
    first, last = facts_of(found.first), facts_of(found.last)
    columns = (Column(" "), Column("at first", folded=True), Column("shrunk", folded=True))
    rows = [(name, first[name], last[name]) for name in first]
    styles = ["dim" if first[name] == last[name] else "" for name in first]
    ending = "nothing smaller fails" if found.finished else "smaller ones may fail, too"
    texts = [f"left: {remaining(found.last)}", f"tried: {found.trials} cases; {ending}"]
    texts += [f"note: {note}" for note in found.notes]
    texts += [f"{found.last_judged.outcome.value}: {found.last_judged.message}", f"written: {folder}"]
    lines = [
        Text(f"{found.suite}::{found.check.identifier} fails on {printable(backend)}", "bold"),
        Text(),
        *table_lines(columns, rows, width, styles),
        Text(),
        *(line for text in texts for line in paragraph(text, width, indent="", hanging="  ")),
        Text("replay:"),
        Text(command, "bold"),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)
