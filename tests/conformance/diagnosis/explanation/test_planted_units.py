"""Wrong answers to cases of the n-gram suite: the report names the mistake, and calls rounding what is rounding."""

from __future__ import annotations

from typing import Final

import pytest

from cai_conformance.faults import FAULTS, Fault, Way, fault_named
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import Judging, SuiteRun
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Explanation, Outcome
from support_engines import Tracing

SUITE: Final = "course.ngram"

ALIKE: Final = {
    "tokenizer.streamed-alone": "tokenizer.each-alone",
    "evaluation.narrow-batch-dropped": "data.narrow-batch-dropped",
}
"""Mistakes that give the very answers of another one, which the catalogue has before them; both are named."""

ENVELOPE: Final = {"trace.carriage-returns", "trace.record-lost"}
"""What breaks the grammar is said by the grammar."""

NAMED: Final = [
    fault.slug
    for fault in FAULTS
    if any(workload.suite == SUITE and workload.way is Way.EXACT for workload in fault.workloads)
    and fault.guessed
    and not fault.equivalent
    and fault.slug not in ENVELOPE
]

QUICK: Final = ("tokenizer.from-the-left", "adamw.coupled-decay", "arithmetic.sums-backwards", "loss.no-maximum")


def first_explanation(fault: Fault) -> Explanation:
    """Judge a program that answers wrongly, and return what is said about its first failure that is explained."""
    suite = find_suite(SUITE)
    question = question_for(suite, GoldenStore(locate()), Options(profile="edges"))
    judging = Judging([SuiteRun(suite, question)], Tracing(fault), lambda _: True)
    assert any(verdict.outcome is Outcome.FAIL for verdict in judging)
    return next(verdict.explanation for verdict in judging.explained() if verdict.explanation is not None)


def test_twenty_mistakes_and_more_are_tried() -> None:
    """Of tokenizers, batches, initial values, losses, gradients, updates and arithmetic."""
    assert len(NAMED) >= 40
    assert {"tokenizer", "data", "init", "loss", "gradient", "adamw", "arithmetic"} <= {
        slug.partition(".")[0] for slug in NAMED
    }


@pytest.mark.parametrize(
    "slug", [pytest.param(slug, marks=[] if slug in QUICK else [pytest.mark.exhaustive]) for slug in NAMED]
)
def test_the_first_guess_is_the_mistake(slug: str) -> None:
    """Or one that gives the same answers."""
    conventions = first_explanation(fault_named(slug)).conventions
    assert conventions[0] == ALIKE.get(slug, slug)
    assert slug in conventions


def test_rounding_is_called_rounding() -> None:
    """Sums in another order change last bits; no convention is blamed that leaves these answers as they are."""
    found = first_explanation(fault_named("arithmetic.products-backwards"))
    assert found.lines[0].startswith("rounding alone, at most ")
    assert found.lines[0].endswith(" ULP: another order of sums, fused products, or other elementary functions")
    assert found.conventions == ("arithmetic.products-backwards",)
