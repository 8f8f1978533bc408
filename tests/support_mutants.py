"""Wrong implementations of the neural n-gram, made from the reference by patching it from outside.

A `Mutant` says what is wrong, how the reference is changed, which check of `course.ngram` must fail, and whether the
printed trace shows it. An `Unseen` is a change that no check sees, with the reason. This file holds the two kinds and
the ways of running them; the mutants themselves are in `support_mutants_*`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

import pytest
from threadpoolctl import threadpool_limits

from cai_conformance.backends.ngram.experiment import Experiment, prepare, train_once
from cai_conformance.backends.ngram.records import trace_records
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference import ReferenceBackend
from cai_conformance.errors import FixtureError
from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.judges.evidence import Question
from cai_conformance.questions import Options, question_for
from cai_conformance.runner import SuiteRun, run_suites
from cai_conformance.suites.ngram.suite import COURSE_NGRAM_SUITE as SUITE
from cai_conformance.suites.suite import SuiteInput
from cai_conformance.trace.formatting import format_body
from cai_conformance.trace.records import Record
from cai_conformance.vectors import write_vectors
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic import FAST, STRICT, Arithmetic

Change = Callable[[pytest.MonkeyPatch], None]

OUTSIDE_THE_BODY: Final = frozenset({"TRACE", "CONVENTION", "BITS", "END"})


def unchanged(_: pytest.MonkeyPatch) -> None:
    """Patch nothing: the arithmetic alone is what differs."""


@dataclass(frozen=True)
class Mutant:
    """One wrong implementation.

    Attributes:
        name: its slug.
        wrong: what it does.
        seen_by: the checks that must fail, such as `tok.fit[tie]`.
        how: by what the first of them sees it.
        change: patches the reference.
        arithmetic: stands in for `strict/1`; None where the arithmetic is right.
        printed: which printed traces show it: none, `published`, `embedded`, or `both`.
        before_training: whether the change ends where training begins, so that it shows nothing if the data are right.
        library: whether it computes with code whose bits are not defined, so that it may be right by accident.
    """

    name: str
    wrong: str
    seen_by: tuple[str, ...]
    how: str
    change: Change = unchanged
    arithmetic: Arithmetic | None = None
    printed: Literal["", "published", "embedded", "both"] = ""
    before_training: bool = False
    library: bool = False


@dataclass(frozen=True)
class Unseen:
    """One change that leaves every answer, every printed and every exact number of the suite as it is.

    Attributes:
        name: its slug.
        wrong: what is changed.
        reason: why nothing shows it.
        change: patches the reference.
    """

    name: str
    wrong: str
    reason: str
    change: Change


def replaced(*targets: tuple[str, str, object]) -> Change:
    """Return a change that replaces attributes, given as (module, name, new value); `name` may be `Class.method`."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for module, name, value in targets:
            owner: object = importlib.import_module(module)
            *path, last = name.split(".")
            for part in path:
                owner = getattr(owner, part)
            patch.setattr(owner, last, value)

    return apply


def together(*changes: Change) -> Change:
    """Return a change that makes several."""

    def apply_all(patch: pytest.MonkeyPatch) -> None:
        for change in changes:
            change(patch)

    return apply_all


def apply(mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
    """Put a mutant in the place of the reference."""
    mutant.change(patch)
    if mutant.arithmetic is not None:
        stand_in = mutant.arithmetic
        patch.setattr("cai_conformance.backends.reference.named", lambda _: stand_in)


@cache
def question(profile: str | None = None, arithmetic: str | None = None) -> Question:
    """Return what the suite asks, on its own corpus."""
    return question_for(SUITE, GoldenStore(locate()), Options(profile=profile, arithmetic=arithmetic))


def verdicts(checks: tuple[str, ...]) -> tuple[Verdict, ...]:
    """Judge the reference, as it stands, by the checks named without their suite.

    Vector cases are asked for alone, in `strict/1`; with any other check the whole trace is made, in `fast`.
    """
    asked = _only_cases(checks) if set(checks).issubset(all_cases()) else question(arithmetic="fast")
    wanted = {f"{SUITE.identifier}::{check}" for check in checks}
    return tuple(run_suites([SuiteRun(SUITE, asked)], _AskedOnce(), wanted.__contains__))


def _only_cases(wanted: tuple[str, ...]) -> Question:
    """Return a question about some vector cases and no others."""
    whole = question("edges")
    cases = tuple(case for case in whole.vectors.cases if f"{case.check}[{case.case}]" in wanted)
    vectors = write_vectors(SUITE.identifier, SUITE.version, cases)
    return replace(whole, request=replace(whole.request, vectors=vectors))


class _AskedOnce(ReferenceBackend):
    """The reference, which answers each request once: of an edges trace the runner asks for a second copy."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[TraceRequest, bytes] = {}

    def trace(self, request: TraceRequest) -> bytes:
        """Answer a request, or repeat the answer."""
        if request not in self._answers:
            self._answers[request] = super().trace(request)
        return self._answers[request]


def all_cases() -> tuple[str, ...]:
    """Return every vector case of the suite as `check[case]`."""
    return tuple(f"{case.check}[{case.case}]" for case in SUITE.cases())


@cache
def exact_cases() -> frozenset[str]:
    """Return the vector cases that are judged in `strict/1` only, because their answers are doubles."""
    return frozenset(f"{case.check}[{case.case}]" for case in question("edges").vectors.cases if case.exact)


def records_of(given: SuiteInput, arithmetic: Arithmetic) -> tuple[Record, ...]:
    """Train once and return the records of the trace; the replay is taken for granted."""
    with threadpool_limits(1):
        data = prepare(given.corpus, given.splits)
        return trace_records(Experiment(arithmetic, data, train_once(data, arithmetic), replays=True))


@dataclass(frozen=True)
class Right:
    """What the unchanged reference makes of an input: the data that it trains on, and the printed trace."""

    data: tuple[object, ...]
    text: str


@cache
def right(given: SuiteInput) -> Right:
    """Return what a mutant is compared with; to be called first while nothing is patched."""
    return Right(training_data(given), printed(given))


def shows(mutant: Mutant, given: SuiteInput) -> bool:
    """Tell whether the printed trace of a mutant, which has been applied, differs from the right one."""
    if mutant.before_training and training_data(given) == right(given).data:
        return False
    return printed(given, mutant.arithmetic or STRICT) != right(given).text


def training_data(given: SuiteInput) -> tuple[object, ...]:
    """Return everything that training and generation read: windows by batch, merges, prompt."""
    data = prepare(given.corpus, given.splits)
    plans = (data.train, data.plan), (data.train, data.train_evaluation), (data.validation, data.validation_evaluation)
    windows = [[[epoch.window(slot) for slot in batch] for batch in plan] for epoch, plan in plans]
    return windows, data.tokenizer.pairs, data.prompt_ids, data.test_documents


def printed(given: SuiteInput, arithmetic: Arithmetic = STRICT) -> str:
    """Return the printed trace of the reference as it stands; what stops it, if it stops.

    What the arithmetic has from `strict/1` is computed in `fast`, which prints the same in half the time.
    """
    quick = replace(
        FAST,
        exp=FAST.exp if arithmetic.exp is STRICT.exp else arithmetic.exp,
        log1p=FAST.log1p if arithmetic.log1p is STRICT.log1p else arithmetic.log1p,
        matmul=FAST.matmul if arithmetic.matmul is STRICT.matmul else arithmetic.matmul,
        sum=FAST.sum if arithmetic.sum is STRICT.sum else arithmetic.sum,
    )
    try:
        records = records_of(given, quick)
    except FixtureError as error:
        return f"stopped: {error}"
    return format_body(record for record in records if record.kind not in OUTSIDE_THE_BODY)


@cache
def golden_lines(outside: bool) -> str:
    """Return the golden's printed records, or its exact ones (BITS)."""
    text = GoldenStore(locate()).read(SUITE.identifier).trace.decode("utf-8")
    kinds = {"BITS"} if outside else None
    chosen = [
        line
        for line in text.splitlines(keepends=True)
        if (line.partition("|")[0] in kinds if kinds else line.partition("|")[0] not in OUTSIDE_THE_BODY)
    ]
    return "".join(chosen)
