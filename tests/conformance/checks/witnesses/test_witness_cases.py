"""Witnesses of vector cases: one whose input has lost what it is there for fails, although its answer is right.

The questions are those of the suites, changed; the answers are the ones that the changed questions state, so that
nothing but the witness can fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pytest

from cai_conformance.checks.case_witnesses import COMPARED, COUNTERS, met_in
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.finding import witnessed
from cai_conformance.checks.vectors import vector_check
from cai_conformance.fixtures.vectors import Answer, Json, VectorCase, write_vectors
from cai_conformance.suites import SUITES, find_suite
from cai_conformance.trace.format import format_record
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.bits import hex_bits
from support_decode_traces import question_about
from support_traces import StoredBackend, sealed

NGRAM, KV, COURSE, WINDOW = "course.ngram", "cai.kv-cache", "course.decoder", "llama.gqa-window"


@dataclass(frozen=True)
class Lost:
    """A case that has lost what it is there for.

    What is changed in its input, what is then not met, and its answer if that changes.
    """

    suite: str
    check: str
    case: str
    changes: Mapping[str, Json]
    missing: str
    answer: Answer | None = None


def doubles(*values: float) -> list[Json]:
    """Return doubles as a case writes them."""
    return [hex_bits(value) for value in values]


ONES: list[Json] = [{"matrix.weight": doubles(1.0)}] * 3

LOST = (
    Lost(NGRAM, "tok.fit", "tie", {"documents": [b"ababab".hex()]}, "no ties", Answer(ids=(97, 98))),
    Lost(NGRAM, "tok.fit", "overlap", {"documents": [b"bcbcbc".hex()]}, "no overlapping occurrences"),
    Lost(NGRAM, "tok.fit", "border", {"documents": [b"abba".hex()]}, "no borders of two documents"),
    Lost(NGRAM, "tok.fit", "single", {"documents": [b"xyzxyz".hex()]}, "no merges of a pair that occurs once"),
    Lost(NGRAM, "tok.fit", "space", {}, "no learned merges, no merges with a space", Answer(ids=())),
    Lost(NGRAM, "tok.golden", "passes", {}, "no applied merges", Answer(ids=(99,) * 7)),
    Lost(NGRAM, "tok.golden", "bytes", {"bytes": "feff"}, "no bytes 0 or 1"),
    Lost(NGRAM, "tok.roundtrip", "not-canonical", {"ids": [3, 2]}, "no ids of merges"),
    Lost(NGRAM, "tok.roundtrip", "bytes", {}, "no texts that are not UTF-8", Answer(text=b"ab".hex())),
    Lost(NGRAM, "data.windows", "documents", {"documents": [[0, 5, 6, 7, 1]]}, "no documents shorter than a window"),
    Lost(NGRAM, "tok.special", "spelled", {"bytes": b"ab".hex()}, "no names of tokens that stay text"),
    Lost(NGRAM, "tok.special", "spelled-merged", {}, "no ids of merges", Answer(ids=(99, 62))),
    Lost(NGRAM, "tok.special", "allowed", {}, "no tokens that were asked for", Answer(ids=(99, 258))),
    Lost(NGRAM, "tok.stream", "characters", {"ids": [99, 100]}, "no ids that end inside a character"),
    Lost(NGRAM, "tok.stream", "cut-off", {}, "no unfinished characters at the end", Answer(text="- c3a9")),
    Lost(NGRAM, "data.windows", "documents", {}, "no windows", Answer(ids=())),
    Lost(NGRAM, "data.windows", "last", {"documents": [[0, 2, 3, 4, 5, 1]]}, "no last windows that just fit"),
    Lost(NGRAM, "data.order", "rejection", {"bound": 8}, "no rejected draws"),
    Lost(NGRAM, "data.order", "threshold", {"seed": 7}, "no lowest draws that are kept"),
    Lost(NGRAM, "data.order", "shuffle", {}, "no windows out of their order", Answer(ids=(0, 0, 0, 1))),
    Lost(NGRAM, "data.order", "partial", {"batch": 4}, "no narrower last batches"),
    Lost(NGRAM, "smp.tie", "lowest", {"logits": doubles(0.5, 2.0, 1.0)}, "no ties"),
    Lost(NGRAM, "smp.support", "masked", {"masked": []}, "no masked ids above the choice"),
    Lost(NGRAM, "smp.support", "sliding", {}, "no generated tokens", Answer(ids=())),
    Lost(NGRAM, "smp.support", "eos", {}, "no ends before the limit", Answer(ids=(3,) * 5)),
    Lost(NGRAM, "loss.weights", "ties", {"logits": [doubles(3.0, 2.0)]}, "no other largest logits"),
    Lost(NGRAM, "loss.weights", "rows", {"logits": []}, "no rows of logits"),
    Lost(NGRAM, "loss.shift", "large", {"logits": [doubles(3.0, 2.0)]}, "no logits without an exponential"),
    Lost(NGRAM, "eval.batch", "rounding", {"documents": [[0, 1]]}, "no windows, no narrower last batches"),
    Lost(NGRAM, "eval.batch", "narrow", {"batch": 7}, "no narrower last batches"),
    Lost(NGRAM, "grad.golden", "embedding", {"windows": [[2, 3, 4], [5, 1, 2]]}, "no repeated ids"),
    Lost(NGRAM, "opt.step", "decay", {"gradients": [doubles(1.0)]}, "only 1 of at least 3 steps"),
    Lost(NGRAM, "num.elementary", "exp", {"arguments": []}, "no compared values", Answer(values=())),
    Lost(KV, "fwd.oracle", "last", {"row": 1}, "only 1 of at least 3 tokens in front of the row"),
    Lost(KV, "fwd.oracle", "far", {"start": 5}, "no positions beyond 1000"),
    Lost("cai.multi-token", "fwd.oracle", "head", {"head": 0}, "no later heads"),
    Lost(KV, "kv.split", "half", {"first_chunk": 16}, "no tokens behind the cut"),
    Lost(KV, "kv.split", "one", {"first_chunk": 0}, "no tokens in front of the cut"),
    Lost(KV, "gen.given", "cached", {}, "only 1 of at least 2 distinct tokens", Answer(ids=(7,) * 16)),
    Lost(KV, "gen.given", "full", {}, "no generated tokens, no distinct tokens", Answer(ids=())),
    Lost(KV, "kv.split", "far", {"start": 0}, "no positions beyond 1000"),
    Lost(KV, "smp.tie", "full", {"tied": False}, "no choices between equal logits"),
    Lost(WINDOW, "causal.flip", "full", {}, "no rows in front that stay", Answer(ids=tuple(range(16)))),
    Lost(WINDOW, "causal.flip", "cached", {}, "no rows that move, no rows in front that stay", Answer(ids=())),
    Lost(WINDOW, "kv.reach", "full", {}, "no rows that move, no rows behind that stay", Answer(ids=())),
    Lost(WINDOW, "kv.reach", "cached", {}, "no rows behind that stay", Answer(ids=tuple(range(16)))),
    Lost(WINDOW, "smp.seed", "full", {}, "no draws", Answer(ids=(5, 6, 36))),
    Lost(COURSE, "smp.seed", "certain", {}, "only 1 of at least 2 distinct tokens", Answer(ids=(5, 5, 8))),
    Lost(COURSE, "smp.law", "cold", {}, "no compared values", Answer(values=())),
    Lost(COURSE, "smp.support", "top-k", {}, "no dropped ids", Answer(ids=(1, 3, 2, 0))),
    Lost(COURSE, "smp.edge", "first", {"units": doubles(0.3)}, "no draws at an end or a border"),
    Lost(COURSE, "smp.edge", "zero-temperature", {"seed": 7}, "no choices without a draw"),
    Lost(COURSE, "smp.edge", "not-finite", {}, "no refused rows", Answer(ids=(1, 2, 36))),
    Lost(COURSE, "smp.tie", "greedy", {"logits": doubles(1.0, 2.0, 3.0)}, "no ties"),
    Lost(COURSE, "spec.law", "acceptance", {}, "no guesses that may be rejected", Answer(values=(1.0, 1.0))),
    Lost(COURSE, "spec.law", "residual", {"law": doubles(0.0, 0.0, 0.0, 0.0)}, "no ids without a residue"),
    Lost(COURSE, "spec.law", "output", {}, "no outcomes of draws", Answer(ids=(0, 0))),
    Lost(
        COURSE,
        "spec.law",
        "all-accepted",
        {},
        "no accepted guesses, no tokens behind an accepted block",
        Answer(ids=(0, 2)),
    ),
    Lost(COURSE, "spec.law", "first-rejected", {"guesses": []}, "no rejected guesses"),
    Lost(COURSE, "opt.step", "clipped", {"maximum_norm": hex_bits(100.0)}, "no clipped steps"),
    Lost(COURSE, "opt.step", "kept", {"maximum_norm": hex_bits(0.01)}, "no steps within the limit"),
    Lost(
        COURSE,
        "opt.step",
        "tiny",
        {"gradients": ONES},
        "no steps within the limit, no gradients whose squares underflow",
    ),
    Lost(COURSE, "opt.step", "large", {"gradients": ONES}, "no gradients whose squares overflow"),
    Lost(COURSE, "opt.step", "kept", {"gradients": []}, "no steps, no steps within the limit"),
)


@cache
def cases_of(suite: str) -> tuple[VectorCase, ...]:
    """Return the cases of a suite, with their answers."""
    return question_about(suite).vectors.cases


def case_of(lost: Lost) -> VectorCase:
    """Return the changed case."""
    case = next(each for each in cases_of(lost.suite) if (each.check, each.case) == (lost.check, lost.case))
    return replace(case, input={**case.input, **lost.changes}, expected=lost.answer or case.expected)


def evidence_about(suite: str, case: VectorCase) -> Evidence:
    """Return the evidence of a backend that gives the one right answer to one case."""
    asked = question_about(suite)
    vectors = write_vectors(suite, find_suite(suite).version, (case,))
    question = Question(
        replace(asked.request, profile="edges", vectors=vectors), asked.grammar, asked.conventions, None
    )
    request, expected = question.request, case.expected
    assert expected is not None
    opening = (
        f"TRACE|grammar=1|suite={suite}|suite_version={request.suite_version}|profile=edges|"
        f"arithmetic={request.arithmetic}|vectors={question.vectors.digest}"
    )
    lines = [opening, format_record(asked.conventions), format_record(expected.record(case.identifier))]
    trace = sealed(("\n".join(lines) + "\nEND|\n").encode())
    return Evidence(StoredBackend({"edges": trace}), question)


@pytest.mark.parametrize("lost", LOST, ids=lambda lost: f"{lost.suite}-{lost.check}-{lost.case}")
def test_a_case_that_meets_too_little_fails(lost: Lost) -> None:
    """The judge passes it, for the answer is right; the check does not."""
    case = case_of(lost)
    (finding,) = vector_check(lost.check)(evidence_about(lost.suite, case))
    assert Outcome.PASS is finding.outcome, finding.message
    found = witnessed(finding, find_suite(lost.suite).check(lost.check).witnesses)
    assert Outcome.FAIL is found.outcome
    assert found.message.startswith(f"this shows nothing, for it met {lost.missing}"), found.message


def test_every_witness_of_a_case_is_lost_by_one() -> None:
    """By check and witness; that something is compared at all is lost by few, for they share a counter."""
    stated = {
        (check.name, witness.many)
        for suite in SUITES
        for check in suite.checks
        for witness in check.witnesses
        if witness != COMPARED and any(case.check == check.name for case in cases_of(suite.identifier))
    }
    assert set() == {
        (check, name)
        for check, name in stated
        if not any(lost.check == check and name in lost.missing for lost in LOST)
    }


@pytest.mark.parametrize("suite", [NGRAM, COURSE])
def test_every_case_meets_what_its_check_needs(suite: str) -> None:
    """Counted from the answers in `vectors.json`, whatever a backend gives."""
    assert_met(suite)


@pytest.mark.exhaustive
@pytest.mark.parametrize("suite", [suite.identifier for suite in SUITES])
def test_every_case_of_every_suite_meets_what_its_check_needs(suite: str) -> None:
    """The cases that have the same questions in many suites, too."""
    assert_met(suite)


def assert_met(suite: str) -> None:
    """Require that each case of a suite meets what its check needs in it, often enough."""
    evidence = Evidence(StoredBackend({}), question_about(suite))
    for case in cases_of(suite):
        met = {each.witness.many: each.count for each in met_in(case, evidence)}
        for witness in find_suite(suite).check(case.check).witnesses:
            if witness.needed_in(case.case):
                assert met[witness.many] >= witness.least, (case.identifier, witness.many)


def test_every_operation_has_a_counter_or_numbers_to_compare() -> None:
    """A new operation without either would be judged for nothing."""
    operations = {case.operation for suite in SUITES for case in cases_of(suite.identifier)}
    assert {"arithmetic.elementary", "init.xavier", "ngram.forward", "sampling.distribution"} == operations - {
        *COUNTERS
    }
