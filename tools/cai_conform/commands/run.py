"""`cai-conform run` and `cai-conform smoke`: judge a backend."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.subject import closing_backend, find_backend, selection
from cai_conform.terminal import output, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cai_conformance.backends import Backend
    from cai_conformance.run.runner import SuiteRun
    from cai_conformance.verdicts import Level, Report, Verdict

SMOKE_SECONDS = 2.0
"""How long a program may take for each answer to `smoke`."""

Expectations = Annotated[
    Path | None,
    typer.Option("--expect-failures", metavar="FILE", help="A TOML file of checks that are known to fail, and why."),
]
Required = Annotated[
    str | None,
    typer.Option("--require", metavar="LEVEL", help="A skip up to this level (I0…I3, T0…T3) makes the exit code 1."),
]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of the JSON lines and exit.")]


def run(
    suites: options.Suites = None,
    backend: options.BackendSpec = "reference",
    arithmetic: options.ArithmeticName = None,
    corpus: options.CorpusFile = None,
    splits: options.SplitsFile = None,
    stories: options.StoriesFile = None,
    expression: options.Filter = None,
    expect_failures: Expectations = None,
    require: Required = None,
    output_format: options.OutputFormat = None,
    policy: options.PolicyName = "auto",
    timeout: options.Timeout = None,
    validate: options.Validate = False,
    jobs: options.Jobs = None,
    color: options.Color = options.ColorChoice.AUTO,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    schema: Schema = False,
) -> None:
    """Judge a backend by the suites: all of them, on the reference, if nothing else is said."""
    if schema:
        print_schema()
        return
    from cai_conformance.backends.protocol import own_arithmetic
    from cai_conformance.checks.tolerance.policy import parse_policy
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.report.expectations import Expectations as NoExpectations
    from cai_conformance.report.expectations import apply_expectations, load_expectations
    from cai_conformance.run.questions import Options, check_used, question_for, required_level
    from cai_conformance.run.runner import SuiteRun
    from cai_conformance.suites import all_check_ids, find_suites

    level = required_level(require)
    expected = NoExpectations("", ()) if expect_failures is None else load_expectations(expect_failures)
    chosen = find_suites(suites or [])
    workers = jobs or os.cpu_count() or 1
    subject = find_backend(backend, isolated=workers > 1, seconds=timeout, validate=validate)
    store = GoldenStore(locate())
    stated = arithmetic or own_arithmetic(subject)
    wanted = Options(stated, corpus, splits, stories=stories, policy=parse_policy(policy))
    check_used(chosen, wanted)
    runs = [SuiteRun(suite, question_for(suite, store, wanted)) for suite in chosen]
    with closing_backend(subject):
        verdicts, notes = judged(runs, subject, expression, workers)
    expecting = apply_expectations(verdicts, expected, all_check_ids())
    report = make_report(subject.name, runs, expecting, required=level, notes=notes)
    show(report, output_format, color, quiet=quiet, verbose=verbose)
    if not quiet:
        _tell_how_to_shrink(subject, backend, verdicts)
    raise typer.Exit(report.exit_code())


def _tell_how_to_shrink(subject: Backend, backend: str, verdicts: tuple[Verdict, ...]) -> None:
    """Name the command that makes a failure small, where there is one: an engine can be asked about other models."""
    from cai_conformance.backends.engine.backend import EngineBackend
    from cai_conformance.verdicts import Outcome

    failed = [verdict.check.partition("[")[0] for verdict in verdicts if verdict.outcome is Outcome.FAIL]
    if not failed or not isinstance(subject, EngineBackend):
        return
    from cai_conformance.run.shrink.failures import identifiers_of

    suite = failed[0].partition("::")[0]
    check = next((name for name in identifiers_of(suite) if name.partition("[")[0] in failed), None)
    if check is not None:
        name = check.partition("::")[2].partition("[")[0]
        say(f"cai-conform: to make it small: cai-conform shrink {suite} --backend {shlex.quote(backend)} -k {name}")


def smoke(
    backend: options.BackendSpec = "reference",
    timeout: options.Timeout = SMOKE_SECONDS,
    validate: options.Validate = False,
    output_format: options.OutputFormat = None,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Ask a backend as little as possible, to see whether the plumbing works."""
    from cai_conformance.backends.engine.backend import EngineBackend
    from cai_conformance.backends.protocol import own_arithmetic
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.questions import Options, question_for
    from cai_conformance.run.runner import SuiteRun
    from cai_conformance.run.smoke import SUITE, smoke_engine
    from cai_conformance.suites import SUITES, find_suite

    subject, store = find_backend(backend, seconds=timeout, validate=validate), GoldenStore(locate())
    with closing_backend(subject):
        suite = find_suite(SUITE) if isinstance(subject, EngineBackend) else SUITES[0]
        options_of_smoke = Options(own_arithmetic(subject), profile="edges")
        runs = [SuiteRun(suite, question_for(suite, store, options_of_smoke))]
        if isinstance(subject, EngineBackend):
            verdicts = tuple(smoke_engine(subject, runs[0].question.request))
        else:
            verdicts, _ = judged(runs, subject, "trace.format or trace.convention or tok", jobs=1)
    report = make_report(subject.name, runs, verdicts)
    show(report, output_format, color, quiet=False, verbose=False)
    raise typer.Exit(report.exit_code())


def judged(
    runs: list[SuiteRun], subject: Backend, expression: str | None, jobs: int
) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """Run the suites with a sign of life on the terminal; return verdicts, explained, and notes.

    Raises:
        SelectionError (invalid-expression, nothing-selected): the filter cannot be read, or selects nothing.
    """
    from cai_conformance.run.runner import Judging

    identifiers = [name for run in runs for name in run.suite.check_ids()]
    selected = selection(expression, identifiers)
    judging = Judging(runs, subject, selected, jobs)
    with progress(f"judging {subject.name}", sum(map(selected, identifiers))) as advance:
        for verdict in judging:
            advance(verdict.check)
    return judging.explained(), judging.notes()


def make_report(
    backend: str,
    runs: Iterable[SuiteRun],
    verdicts: tuple[Verdict, ...],
    required: Level | None = None,
    notes: tuple[str, ...] = (),
) -> Report:
    """Put the five versions beside the verdicts."""
    from cai_conformance.run.runner import versions
    from cai_conformance.verdicts import Report

    return Report(backend, versions(runs), verdicts, required, notes)


def show(
    report: Report,
    output_format: options.FormatChoice | None,
    color: options.ColorChoice,
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    """Print a report on standard output."""
    from cai_conformance.report.jsonlines import render_jsonlines
    from cai_conformance.report.junit import render_junit
    from cai_conformance.report.markdown import render_markdown
    from cai_conformance.report.terminal import render_table

    console = output(color)
    usual = options.FormatChoice.TABLE if console.is_terminal else options.FormatChoice.JSON
    chosen = output_format or usual
    if chosen is options.FormatChoice.TABLE:
        render_table(report, console, int(verbose) - int(quiet))
    elif chosen is options.FormatChoice.JSON:
        for line in render_jsonlines(report):
            print(line)
    else:
        print(render_markdown(report) if chosen is options.FormatChoice.MARKDOWN else render_junit(report), end="")


def print_schema() -> None:
    """Print the JSON Schema of the JSON lines."""
    import json

    from cai_conformance.report.schema import report_schema

    print(json.dumps(report_schema(), indent=2))
