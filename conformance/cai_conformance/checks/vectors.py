"""The judge of vector cases: each answer of the backend against the one right answer.

Where the backend's arithmetic does not define every bit, rows and tokens are judged by its measured rounding, unless
the policy says otherwise; answers that are whole numbers are compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cai_conformance.checks.case_witnesses import met_in
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.text_stream import OPERATION as STREAMED
from cai_conformance.checks.text_stream import judge_stream
from cai_conformance.checks.tolerance.floor import ROW_OPERATIONS
from cai_conformance.checks.tolerance.near_ties import judge_tokens
from cai_conformance.checks.tolerance.rows import judge_row
from cai_conformance.checks.window import OPERATION as MOVED
from cai_conformance.checks.window import judge_moved
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.trace.format import format_bits
from cai_conformance.verdicts import Difference, Outcome, Problem
from cai_reference.arithmetic.bits import ulp_distance

EXACT_ARITHMETIC = "strict/1"
GENERATED = "decoder.generate"


def vector_check(check: str) -> Callable[[Evidence], tuple[Finding, ...]]:
    """Return a judge over all cases that name this check, one finding a case."""

    def judge(evidence: Evidence) -> tuple[Finding, ...]:
        cases = [case for case in evidence.question.vectors.cases if case.check == check]
        if not cases:
            return (Finding.failed("vectors.json holds no case of this check"),)
        return tuple(_counted(case, _judge_case(case, evidence), evidence) for case in cases)

    return judge


def _counted(case: VectorCase, finding: Finding, evidence: Evidence) -> Finding:
    """Return a finding with what was met, where the answer is right."""
    return finding.having_met(*met_in(case, evidence)) if finding.outcome is Outcome.PASS else finding


def _judge_case(case: VectorCase, evidence: Evidence) -> Finding:
    arithmetic = evidence.answers.arithmetic
    bitwise = arithmetic == EXACT_ARITHMETIC
    exact = evidence.question.policy.is_exact(bitwise=bitwise)
    answer = evidence.answers.of(case)
    if answer is None:
        return Finding.skipped("the backend gave no answer to this case", case=case.case)
    measured = None if exact else _measured(case, answer, evidence)
    if measured is not None:
        return measured
    if case.exact and not (exact or bitwise):
        reason = f"the answer's bits are those of {EXACT_ARITHMETIC}; the backend ran in {arithmetic}"
        return Finding.skipped(reason, case=case.case)
    difference = _difference(case, answer)
    if case.operation == STREAMED and (difference is None or difference.problem is Problem.VALUE):
        return judge_stream(case, answer)
    if difference is None:
        return Finding.passed("the one right answer", case=case.case)
    return Finding.failed(f"{difference}. Typical cause: {case.sees}", (difference,), case=case.case)


def _measured(case: VectorCase, answer: Answer, evidence: Evidence) -> Finding | None:
    """Judge what rounding may touch; None for what it may not."""
    given, floor, policy = evidence.question.given, evidence.floor, evidence.question.policy
    if given is None or floor is None:
        return None
    if case.operation in ROW_OPERATIONS:
        return judge_row(case, answer, policy, floor)
    if case.operation == GENERATED:
        return judge_tokens(case, answer, evidence, floor)
    return judge_moved(case, answer, given, policy, floor) if case.operation == MOVED else None


def _difference(case: VectorCase, answer: Answer) -> Difference | None:
    expected = case.expected
    assert expected is not None
    for field in ("ids", "values", "text"):
        wanted, found = getattr(expected, field), getattr(answer, field)
        if (wanted is None) != (found is None):
            return Difference(Problem.EXTRA if wanted is None else Problem.MISSING, case.label, field)
    if expected.ids is not None and answer.ids is not None:
        return _first_unequal(case.label, "ids", expected.ids, answer.ids)
    if expected.values is not None and answer.values is not None:
        return _first_unequal(case.label, "values", expected.values, answer.values)
    if answer.text != expected.text:
        return Difference(Problem.VALUE, case.label, "text", None, str(expected.text), str(answer.text))
    return None


def _first_unequal(
    record: str, field: str, expected: Sequence[int] | Sequence[float], found: Sequence[int] | Sequence[float]
) -> Difference | None:
    if len(expected) != len(found):
        return Difference(Problem.SHAPE, record, field, None, f"{len(expected)} items", f"{len(found)} items")
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if isinstance(one, float):
            bits = format_bits(one), format_bits(float(other))
            if bits[0] != bits[1]:
                problem = Problem.NAN if other != other else Problem.VALUE
                distance = None if problem is Problem.NAN else ulp_distance(one, float(other))
                return Difference(problem, record, field, index, *bits, distance)
        elif one != other:
            return Difference(Problem.VALUE, record, field, index, str(one), str(other))
    return None
