"""What the suite `course.ngram` sees of seeded faults, case by case, and the page about what its printed trace misses.

The cases named for a fault must fail. Each fault is also run through the training experiment, to know whether the
printed trace alone would have shown it. The page `conformance/docs/blind-spots.md` lists all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cai_conformance.backends.reference.ngram_records import trace_records
from cai_conformance.backends.reference.ngram_run import SIZES, Experiment, prepare, train_once
from cai_conformance.errors import FixtureError
from cai_conformance.faults import FAULTS, Fault, Place, Way, Workload
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.inputs import SuiteInput
from cai_conformance.fixtures.published import BODY_SHA256
from cai_conformance.run.kill_matrix.observation import observe
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites.ngram import COURSE_NGRAM_SUITE as SUITE
from cai_conformance.trace.format import format_body
from cai_conformance.trace.records import Record
from cai_reference.arithmetic import Arithmetic, instances
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter
from cai_reference.training.adamw import AdamW
from support_course import CORPUS, SPLITS, needs_corpus

PAGE: Final = Path(__file__).parents[3] / "conformance" / "docs" / "blind-spots.md"
SEEN: Final = [fault for fault in FAULTS if fault.sight is not None]
UNSEEN: Final = [fault for fault in FAULTS if not fault.guessed and fault.sight is None]
OUTSIDE_THE_BODY: Final = frozenset({"TRACE", "CONVENTION", "BITS", "END"})
BEFORE_TRAINING: Final = frozenset({Place.TOKENIZER, Place.DATA})
"""Where a fault shows nothing in a run whose windows, merges and prompt are right."""

OWN: Final = SUITE.default_input()
PUBLISHED: Final = SuiteInput(CORPUS.read_bytes(), SPLITS.read_bytes(), "published") if CORPUS.is_file() else None


def every(faults: Sequence[Fault], step: int) -> pytest.MarkDecorator:
    """Return one test a fault, of which every so many run always, the rest with `--exhaustive`."""
    marks = [pytest.mark.exhaustive if place % step else () for place in range(len(faults))]
    return pytest.mark.parametrize(
        "fault", [pytest.param(fault, id=fault.slug, marks=mark) for fault, mark in zip(faults, marks, strict=True)]
    )


def body(records: Iterable[Record]) -> str:
    """Return the printed records alone."""
    return format_body(record for record in records if record.kind not in OUTSIDE_THE_BODY)


def training_data(given: SuiteInput) -> object:
    """Return everything that training and generation read: windows by batch, merges, prompt."""
    data = prepare(given.corpus, given.splits)
    plans = (data.train, data.plan), (data.train, data.train_evaluation), (data.validation, data.validation_evaluation)
    windows = [[[epoch.window(slot) for slot in batch] for batch in plan] for epoch, plan in plans]
    return windows, data.tokenizer.pairs, data.prompt_ids, data.test_documents


def printed(given: SuiteInput) -> str:
    """Return the printed trace of the reference as it stands, or what stops it; the replay is taken for granted.

    What its arithmetic has from `strict/1` is computed in `fast`, which prints the same in half the time.
    """
    asked = instances.named(STRICT.identifier)
    changed = {name: getattr(asked, name) for name in ("exp", "log1p", "matmul", "sum")}
    quick: Arithmetic = replace(FAST, **{n: f for n, f in changed.items() if f is not getattr(STRICT, n)})
    try:
        with threadpool_limits(1):
            data = prepare(given.corpus, given.splits)
            return body(trace_records(Experiment(quick, data, train_once(data, quick), replays=True)))
    except FixtureError as error:
        return f"stopped: {error}"


@cache
def right(given: SuiteInput) -> tuple[object, str]:
    """Return training data and printed trace of the reference as it is; to be called first while it is."""
    return training_data(given), printed(given)


def shows(fault: Fault, given: SuiteInput) -> bool:
    """Tell whether the printed trace of a wrong implementation differs from the right one."""
    data, text = right(given)
    with fault.planted():
        if fault.places <= BEFORE_TRAINING and training_data(given) == data:
            return False
        return printed(given) != text


def test_the_reference_itself_prints_the_golden() -> None:
    """Unchanged, and from the published corpus the published trace."""
    golden = GoldenStore(locate()).read(SUITE.identifier).trace.decode("utf-8").splitlines(keepends=True)
    assert "".join(line for line in golden if line.partition("|")[0] not in OUTSIDE_THE_BODY) == right(OWN)[1]
    if PUBLISHED is not None:
        assert BODY_SHA256 == hashlib.sha256(right(PUBLISHED)[1].encode("utf-8")).hexdigest()


@every(SEEN, 5)
def test_the_named_cases_fail(fault: Fault) -> None:
    """Neither crashed nor blocked; cases of a run are asked for in its run, the others alone."""
    assert fault.sight is not None
    alone = {f"{case.check}[{case.case}]" for case in SUITE.cases()}
    ways = {Way.EXACT if case in alone else Way.RUN for case in fault.sight.cases}
    failed = {case for way in ways for case in observe(fault.slug, Workload(SUITE.identifier, way)).cases}
    if fault.library and failed.isdisjoint(fault.sight.cases):
        pytest.skip("the library of this machine computes the bits of strict/1 here")
    assert set(fault.sight.cases) <= failed


@every(SEEN, 40)
def test_the_embedded_trace_shows_it_or_not(fault: Fault) -> None:
    """On the embedded corpus the printed trace differs from the golden exactly where the page says so."""
    assert fault.sight is not None
    assert (fault.sight.printed in ("embedded", "both")) == shows(fault, OWN)


@needs_corpus
@every([fault for fault in SEEN if fault.sight and fault.sight.printed != "both" and not fault.library], 40)
def test_the_published_trace_shows_it_or_not(fault: Fault) -> None:
    """On the published corpus the printed trace differs from the published one exactly where the page says so."""
    assert PUBLISHED is not None and fault.sight is not None
    assert (fault.sight.printed in ("published", "both")) == shows(fault, PUBLISHED)


@every(UNSEEN, 6)
def test_what_is_unseen_changes_nothing(fault: Fault) -> None:
    """Every answer, every printed number and every exact bit of the run stay as they are."""
    for workload in fault.workloads:
        found = observe(fault.slug, workload)
        assert (found.cases, found.errored, found.blocked) == ((), (), ()), str(workload)


def test_the_run_ends_in_the_first_epoch() -> None:
    """There are more batches than steps, so that a second epoch never begins."""
    assert SIZES.steps < len(prepare(OWN.corpus, OWN.splits).plan)


def test_no_gradient_of_the_run_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """All global norms stay below 1, the usual limit of clipping."""
    norms: list[float] = []
    step = AdamW.step

    def measured(self: AdamW, parameters: Sequence[Parameter]) -> None:
        norms.append(float(np.sqrt(sum(float(np.sum(np.square(each.gradient))) for each in parameters))))
        step(self, parameters)

    monkeypatch.setattr(AdamW, "step", measured)
    printed(OWN)
    assert SIZES.steps == len(norms)
    assert max(norms) < 1.0


def test_every_case_sees_something() -> None:
    """Every vector case is named by a fault that it catches, and every case that is named is one of the suite."""
    named = {case for fault in SEEN if fault.sight for case in fault.sight.cases}
    assert [] == [case for case in (f"{case.check}[{case.case}]" for case in SUITE.cases()) if case not in named]
    assert named <= {identifier.partition("::")[2] for identifier in SUITE.check_ids()}


def row_of(fault: Fault) -> str:
    """Return the row of the page for a fault; nothing shows it where it has no sight."""
    if fault.sight is None:
        return f"| `{fault.slug}` | {fault.title} | {fault.equivalent or fault.unseen} |"
    store = question_for(SUITE, GoldenStore(locate()), Options(profile="edges")).vectors.cases
    exact = {f"{case.check}[{case.case}]" for case in store if case.exact}
    traces = ["yes" if fault.sight.printed in (corpus, "both") else "no" for corpus in ("published", "embedded")]
    checks = ", ".join(f"`{case}`" for case in fault.sight.cases)
    bits_only = "yes" if not fault.sight.printed and exact.issuperset(fault.sight.cases) else "no"
    return f"| `{fault.slug}` | {' | '.join((fault.title, *traces, checks, fault.sight.how, bits_only))} |"


def test_the_page_lists_exactly_these() -> None:
    """The rows of the page that open with a slug are those of the catalogue."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert sorted(map(row_of, (*SEEN, *UNSEEN))) == sorted(rows)
