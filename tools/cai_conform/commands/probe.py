"""`cai-conform probe`: hold an engine against itself, on any model folder that it can load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.commands.run import make_report, required_level, show
from cai_conform.subject import closing_backend, find_backend
from cai_conform.terminal import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from cai_conformance.backends import Backend
    from cai_conformance.measuring import Policy
    from cai_conformance.probing.probe import Probe
    from cai_conformance.verdicts import Verdict

SUITE = "llama.dense"
"""Whose given weights are probed where no folder is named."""

ModelFolder = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        help="A model folder that the backend can load; the given weights of llama.dense if left out.",
    ),
]
Required = Annotated[
    str | None,
    typer.Option("--require", metavar="LEVEL", help="A skip up to this level (I1…I3, T1) makes the exit code 1."),
]


def probe(
    backend: options.BackendSpec = "reference",
    model: ModelFolder = None,
    arithmetic: options.ArithmeticName = None,
    expression: options.Filter = None,
    require: Required = None,
    output_format: options.OutputFormat = None,
    policy: options.PolicyName = "auto",
    timeout: options.Timeout = None,
    validate: options.Validate = False,
    color: options.Color = options.ColorChoice.AUTO,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Hold an engine against itself: the same tokens in other calls, after rollbacks, in slots used before."""
    from cai_conformance.measuring import parse_policy

    level, chosen, rule = required_level(require), _selected(expression), parse_policy(policy)
    subject = find_backend(backend, seconds=timeout, validate=validate)
    with closing_backend(subject):
        found = _probe_of(subject, model, arithmetic, rule)
        verdicts = _judged(found, subject, chosen)
        notes = _notes(found)
    report = make_report(subject.name, [], verdicts, required=level, notes=notes)
    show(report, output_format, color, quiet=quiet, verbose=verbose)
    raise typer.Exit(report.exit_code())


def _selected(expression: str | None) -> Callable[[str], bool]:
    """Return which ids are judged.

    Raises:
        InvalidExpression, NothingSelected: the filter cannot be read, or selects nothing.
    """
    from cai_conformance.probing.running import probe_ids
    from cai_conformance.selection import compile_expression
    from cai_conformance.suites.errors import NothingSelected

    selected = compile_expression(expression) if expression is not None else (lambda _: True)
    if not any(map(selected, probe_ids())):
        raise NothingSelected(expression or "")
    return selected


def _probe_of(subject: Backend, folder: Path | None, arithmetic: str | None, policy: Policy) -> Probe:
    """Put a folder, or a suite's given weights, under probe.

    Raises:
        NotDriven: the backend is no engine.
        FolderUnreadable: the folder cannot be read.
        BackendError: the engine cannot be started.
    """
    from cai_conformance.backends.reference import ReferenceBackend
    from cai_conformance.engines.backend import EngineBackend
    from cai_conformance.engines.reference_engine import ReferenceEngine
    from cai_conformance.probing.errors import NotDriven
    from cai_conformance.probing.running import probe_of_folder
    from cai_reference.arithmetic import named

    if folder is None:
        return _given(subject, arithmetic, policy)
    if isinstance(subject, EngineBackend):
        return probe_of_folder(subject.engine, folder, policy)
    if isinstance(subject, ReferenceBackend):
        return probe_of_folder(ReferenceEngine(named(arithmetic or "strict/1")), folder, policy)
    raise NotDriven(subject.name)


def _given(subject: Backend, arithmetic: str | None, policy: Policy) -> Probe:
    from cai_conformance.backends.asking import own_arithmetic
    from cai_conformance.goldens import GoldenStore, locate
    from cai_conformance.judges.engines.driving import probe_of
    from cai_conformance.judges.evidence import Evidence
    from cai_conformance.probing.errors import NotDriven
    from cai_conformance.questions import Options, question_for
    from cai_conformance.suites import find_suite

    stated = arithmetic or own_arithmetic(subject)
    wanted = Options(stated, profile="edges", policy=policy)
    evidence = Evidence(subject, question_for(find_suite(SUITE), GoldenStore(locate()), wanted))
    opened = evidence.opened
    if opened is None:
        raise NotDriven(subject.name)
    return probe_of(evidence, opened)


def _judged(found: Probe, subject: Backend, selected: Callable[[str], bool]) -> tuple[Verdict, ...]:
    from cai_conformance.probing.running import probe_ids, probed_verdicts

    verdicts: list[Verdict] = []
    with progress(f"probing {subject.name}", sum(map(selected, probe_ids()))) as advance:
        for verdict in probed_verdicts(found, selected):
            verdicts.append(verdict)
            advance(verdict.check)
    return tuple(verdicts)


def _notes(found: Probe) -> tuple[str, ...]:
    """Say what was allowed, where it was measured."""
    from cai_conformance.measuring.policy import FACTOR

    floor = found.rounding.used()
    return () if floor is None else (f"{floor}; {FACTOR:g} floors are allowed",)
