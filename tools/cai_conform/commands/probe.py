"""`cai-conform probe`: hold an engine against itself, on any model folder that it can load."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.commands.run import make_report, show
from cai_conform.subject import closing_backend, find_backend, selection
from cai_conform.terminal import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cai_conformance.backends import Backend
    from cai_conformance.checks.evidence import Question
    from cai_conformance.checks.probe.probe import Probe
    from cai_conformance.checks.tolerance.policy import Policy
    from cai_conformance.run.probe.judged import CheckedFolder
    from cai_conformance.run.questions import Options
    from cai_conformance.verdicts import Verdict

SUITE = "llama.dense"
"""Whose given weights are probed where no folder is named."""

DrivenSpec = Annotated[
    str,
    typer.Option(
        "--backend",
        "-b",
        metavar="SPEC",
        help="reference, torch, transformers, serve:COMMAND, module:attribute of an engine; fault:SLUG for the "
        "reference with a seeded fault.",
    ),
]
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
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt", metavar="IDS", help="Ask about these ids alone, such as 3,0,1: beside the reference, and in calls."
    ),
]
Start = Annotated[int, typer.Option("--start", metavar="N", help="The position of the first id of the prompt.")]
CallsText = Annotated[
    str | None,
    typer.Option(
        "--calls",
        metavar="CALLS",
        help="How the prompt is fed: 2,1 in two calls; -1 drops a token; clear, copy, other are slots.",
    ),
]
BatchTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--batch", metavar="ROWS", help="Train a step on these rows, such as 0,3,1/0,2. Again for another step."
    ),
]


def probe(
    backend: DrivenSpec = "reference",
    model: ModelFolder = None,
    prompt: Prompt = None,
    start: Start = 0,
    calls: CallsText = None,
    batch: BatchTexts = None,
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
    from cai_conformance.checks.tolerance.policy import parse_policy
    from cai_conformance.run.probe.questions import ProbeQuestion, asked_verdicts
    from cai_conformance.run.probe.runner import probe_ids, probed_verdicts
    from cai_conformance.run.questions import required_level

    question = ProbeQuestion.of(prompt, start, calls, batch or ())
    identifiers = probe_ids() if question is None else question.identifiers
    level, chosen, rule = required_level(require), selection(expression, identifiers), parse_policy(policy)
    subject = find_driven(backend, arithmetic, seconds=timeout, validate=validate)
    with closing_backend(subject):
        if question is None:
            found = _probe_of(subject, model, arithmetic, rule)
            judged = probed_verdicts(found, chosen)
            verdicts = _watched(f"probing {subject.name}", judged, identifiers, chosen)
        else:
            with _folder_of(subject, model, arithmetic, rule) as folder:
                found, asked = folder.probe, asked_verdicts(folder, question, chosen)
                verdicts = _watched(f"asking {subject.name}", asked, identifiers, chosen)
        notes = _notes(found)
    report = make_report(subject.name, [], verdicts, required=level, notes=notes)
    show(report, output_format, color, quiet=quiet, verbose=verbose)
    raise typer.Exit(report.exit_code())


def find_driven(spec: str, arithmetic: str | None, *, seconds: float | None, validate: bool) -> Backend:
    """Return the backend of a specification; `fault:SLUG` is the reference with a seeded fault.

    Raises:
        BackendError: there is no such backend, or it cannot be loaded.
        FaultError (unknown-fault): there is no such fault.
    """
    from cai_conformance.run.shrink.trial import FAULT, wrong_backend

    if spec.startswith(FAULT):
        return wrong_backend(spec.removeprefix(FAULT), arithmetic)
    return find_backend(spec, seconds=seconds, validate=validate)


def _probe_of(subject: Backend, folder: Path | None, arithmetic: str | None, policy: Policy) -> Probe:
    """Put a folder, or a suite's given weights, under probe.

    Raises:
        SelectionError (not-driven): the backend is no engine.
        InputError (folder-unreadable): the folder cannot be read.
        BackendError: the engine cannot be started.
    """
    from cai_conformance.run.probe.runner import probe_of_folder
    from cai_conformance.run.shrink.trial import driver_of

    if folder is None:
        return _given(subject, arithmetic, policy)
    return probe_of_folder(driver_of(subject, arithmetic).engine, folder, policy)


@contextmanager
def _folder_of(
    subject: Backend, folder: Path | None, arithmetic: str | None, policy: Policy
) -> Iterator[CheckedFolder]:
    """Put a folder, or one of a suite's given weights, into the engine for a while.

    Raises:
        `not-driven`, `folder-unreadable`, BackendError: as `_probe_of`.
    """
    from cai_conformance.backends.engine.given_model import folder_of, model_folder
    from cai_conformance.run.probe.judged import CheckedFolder
    from cai_conformance.run.questions import Options

    wanted = Options(arithmetic, profile="edges")
    with nullcontext(folder) if folder is not None else folder_of(model_folder(_question(wanted).request)) as path:
        yield CheckedFolder(_probe_of(subject, path, arithmetic, policy), path.absolute())


def _question(wanted: Options) -> Question:
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.questions import question_for
    from cai_conformance.suites import find_suite

    return question_for(find_suite(SUITE), GoldenStore(locate()), wanted)


def _given(subject: Backend, arithmetic: str | None, policy: Policy) -> Probe:
    from cai_conformance.backends.protocol import own_arithmetic
    from cai_conformance.checks.evidence import Evidence
    from cai_conformance.checks.probe.driven import probe_of
    from cai_conformance.errors import SelectionError
    from cai_conformance.run.questions import Options

    stated = arithmetic or own_arithmetic(subject)
    evidence = Evidence(subject, _question(Options(stated, profile="edges", policy=policy)))
    opened = evidence.opened
    if opened is None:
        raise SelectionError("not-driven", backend=subject.name)
    return probe_of(evidence, opened)


def _watched(
    text: str, verdicts: Iterator[Verdict], identifiers: Sequence[str], selected: Callable[[str], bool]
) -> tuple[Verdict, ...]:
    """Return verdicts, with a sign of life on the terminal while they are found."""
    found: list[Verdict] = []
    with progress(text, sum(map(selected, identifiers))) as advance:
        for verdict in verdicts:
            found.append(verdict)
            advance(verdict.check)
    return tuple(found)


def _notes(found: Probe) -> tuple[str, ...]:
    """Say what was allowed, where it was measured."""
    from cai_conformance.checks.tolerance.policy import FACTOR

    floor = found.rounding.used()
    return () if floor is None else (f"{floor}; {FACTOR:g} floors are allowed",)
