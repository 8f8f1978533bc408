"""Wrong implementations against the suite `course.ngram`: each must fail the check that is named for it.

Each is also run through the training experiment, to know whether the printed trace alone would have shown it. The page
`conformance/docs/blind-spots.md` lists all of them; its rows are held against the mutants here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from cai_conformance.backends.ngram.experiment import SIZES, prepare
from cai_conformance.judges.ngram.facts import BODY_SHA256
from cai_conformance.suites.ngram.suite import COURSE_NGRAM_SUITE as SUITE
from cai_conformance.suites.suite import SuiteInput
from cai_conformance.trace.formatting import format_body
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic import STRICT
from cai_reference.autograd import Parameter
from cai_reference.training import AdamW
from support_course import CORPUS, SPLITS, needs_corpus
from support_mutants import (
    Mutant,
    Unseen,
    all_cases,
    apply,
    exact_cases,
    golden_lines,
    printed,
    records_of,
    right,
    shows,
    verdicts,
)
from support_mutants_arithmetic import ARITHMETIC_MUTANTS
from support_mutants_choices import CHOICE_MUTANTS
from support_mutants_data import DATA_MUTANTS
from support_mutants_initial import INITIAL_MUTANTS
from support_mutants_model import MODEL_MUTANTS
from support_mutants_optimizer import OPTIMIZER_MUTANTS
from support_mutants_text import TEXT_MUTANTS
from support_mutants_unseen import EQUIVALENT, UNREACHED, global_norm

PAGE = Path(__file__).parents[2] / "conformance" / "docs" / "blind-spots.md"
MUTANTS = (
    *TEXT_MUTANTS,
    *DATA_MUTANTS,
    *INITIAL_MUTANTS,
    *ARITHMETIC_MUTANTS,
    *MODEL_MUTANTS,
    *CHOICE_MUTANTS,
    *OPTIMIZER_MUTANTS,
)
UNSEEN = (*EQUIVALENT, *UNREACHED)

SAMPLED = 40
"""Of the tests that train a model for each mutant, every so many run always, the rest with `--exhaustive`."""


def sampled(mutants: Sequence[Mutant]) -> pytest.MarkDecorator:
    """Return one test a mutant, all but a sample of them marked as exhaustive."""
    return pytest.mark.parametrize(
        "mutant",
        [
            pytest.param(mutant, id=mutant.name, marks=pytest.mark.exhaustive if place % SAMPLED else ())
            for place, mutant in enumerate(mutants)
        ],
    )


each_mutant = pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=pytest.mark.exhaustive if place % 5 else ())
        for place, mutant in enumerate(MUTANTS)
    ],
)
a_sample_of_mutants = sampled(MUTANTS)
a_sample_that_a_printed_trace_misses = sampled(
    [mutant for mutant in MUTANTS if mutant.printed != "both" and not mutant.library]
)
each_unseen = pytest.mark.parametrize(
    "unseen",
    [
        pytest.param(unseen, id=unseen.name, marks=() if place % 6 == 0 else pytest.mark.exhaustive)
        for place, unseen in enumerate(UNSEEN)
    ],
)


OWN = SUITE.default_input()
PUBLISHED = SuiteInput(CORPUS.read_bytes(), SPLITS.read_bytes(), "published") if CORPUS.is_file() else None


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_patched_yet() -> None:
    """Keep what the unchanged reference prints, before any test changes it."""
    right(OWN)
    if PUBLISHED is not None:
        right(PUBLISHED)


def test_the_reference_itself_passes_everything() -> None:
    """Unchanged, the reference answers every case right and prints the golden."""
    assert {Outcome.PASS} == {verdict.outcome for verdict in verdicts(all_cases())}
    assert golden_lines(outside=False) == right(OWN).text


@needs_corpus
def test_the_reference_itself_prints_the_published_trace() -> None:
    """Unchanged, the reference prints the published trace from the published corpus."""
    assert PUBLISHED is not None
    assert BODY_SHA256 == hashlib.sha256(right(PUBLISHED).text.encode("utf-8")).hexdigest()


@each_mutant
def test_the_named_checks_fail(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks named for a wrong implementation fail, neither crashed nor blocked."""
    apply(mutant, monkeypatch)
    found = {verdict.check.partition("::")[2]: verdict.outcome for verdict in verdicts(mutant.seen_by)}
    if mutant.library and set(found.values()) == {Outcome.PASS}:
        pytest.skip("the library of this machine computes the bits of strict/1 here")
    assert dict.fromkeys(mutant.seen_by, Outcome.FAIL) == {check: found[check] for check in mutant.seen_by}


@a_sample_of_mutants
def test_the_embedded_trace_shows_it_or_not(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the embedded corpus the printed trace differs from the golden exactly where the page says so."""
    apply(mutant, monkeypatch)
    assert (mutant.printed in ("embedded", "both")) == shows(mutant, OWN)


@needs_corpus
@a_sample_that_a_printed_trace_misses
def test_the_published_trace_shows_it_or_not(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the published corpus the printed trace differs from the published one exactly where the page says so."""
    assert PUBLISHED is not None
    apply(mutant, monkeypatch)
    assert (mutant.printed in ("published", "both")) == shows(mutant, PUBLISHED)


@each_unseen
def test_what_is_unseen_changes_nothing(unseen: Unseen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer, every printed number and every exact bit of the run stay as they are."""
    unseen.change(monkeypatch)
    assert {Outcome.PASS} == {verdict.outcome for verdict in verdicts(all_cases())}
    records = records_of(OWN, STRICT)
    bits = format_body(record for record in records if record.kind == "BITS")
    body = format_body(record for record in records if record.kind not in ("BITS", "CONVENTION"))
    assert golden_lines(outside=True) == bits
    assert golden_lines(outside=False) == body


def test_the_run_ends_in_the_first_epoch() -> None:
    """There are more batches than steps, so that a second epoch never begins."""
    assert SIZES.steps < len(prepare(OWN.corpus, OWN.splits).plan)


def test_no_gradient_of_the_run_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """All global norms stay below 1, the usual limit of clipping."""
    norms: list[float] = []
    step = AdamW.step

    def measured(self: AdamW, parameters: Sequence[Parameter]) -> None:
        norms.append(global_norm(parameters))
        step(self, parameters)

    monkeypatch.setattr(AdamW, "step", measured)
    printed(OWN)
    assert SIZES.steps == len(norms)
    assert max(norms) < 1.0


def test_every_case_sees_something() -> None:
    """Every vector case is named by a wrong implementation that it catches."""
    named = {check for mutant in MUTANTS for check in mutant.seen_by}
    assert [] == [case for case in all_cases() if case not in named]


def test_names_are_unique() -> None:
    """No slug stands twice."""
    assert [] == [name for name, count in Counter(item.name for item in (*MUTANTS, *UNSEEN)).items() if count > 1]


def row_of(mutant: Mutant) -> str:
    """Return the row of the page for a wrong implementation."""
    published, embedded = (
        "yes" if mutant.printed in (corpus, "both") else "no" for corpus in ("published", "embedded")
    )
    bits_only = not mutant.printed and exact_cases().issuperset(mutant.seen_by)
    checks = ", ".join(f"`{check}`" for check in mutant.seen_by)
    cells = (f"`{mutant.name}`", mutant.wrong, published, embedded, checks, mutant.how, "yes" if bits_only else "no")
    return f"| {' | '.join(cells)} |"


def row_of_unseen(unseen: Unseen) -> str:
    """Return the row of the page for a change that nothing shows."""
    return f"| `{unseen.name}` | {unseen.wrong} | {unseen.reason} |"


def test_the_page_lists_exactly_these() -> None:
    """The rows of the page that open with a slug are those of the mutants, in their order."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert [*map(row_of, MUTANTS), *map(row_of_unseen, UNSEEN)] == rows


def test_the_page_names_checks_that_exist() -> None:
    """Every check that a mutant names is one of the suite."""
    known = {identifier.partition("::")[2] for identifier in SUITE.check_ids()}
    assert [] == [check for mutant in MUTANTS for check in mutant.seen_by if check not in known]
