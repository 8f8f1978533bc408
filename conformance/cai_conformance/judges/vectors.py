"""The judge of vector cases: each answer of the backend's edges trace against the one right answer.

Where the backend's arithmetic does not define every bit, rows and tokens are judged by its measured rounding, unless
the policy says otherwise; answers that are whole numbers are compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cai_conformance.judges.cases.counting import met_in
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.measured_rows import judge_row
from cai_conformance.judges.moved_rows import OPERATION as MOVED
from cai_conformance.judges.moved_rows import judge_moved
from cai_conformance.judges.near_ties import judge_tokens
from cai_conformance.judges.streamed_text import OPERATION as STREAMED
from cai_conformance.judges.streamed_text import judge_stream
from cai_conformance.measuring.floor import ROW_OPERATIONS
from cai_conformance.trace.formatting import format_bits
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase
from cai_conformance.verdicts import Difference, Outcome, Problem
from cai_reference.arithmetic import ulp_distance

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
    arithmetic = evidence.edges.envelope.arithmetic
    bitwise = arithmetic == EXACT_ARITHMETIC
    exact = evidence.question.policy.is_exact(bitwise=bitwise)
    answer = evidence.edges.find("SAMPLE", case=case.identifier)
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


def _measured(case: VectorCase, answer: Record, evidence: Evidence) -> Finding | None:
    """Judge what rounding may touch; None for what it may not."""
    given, floor, policy = evidence.question.given, evidence.floor, evidence.question.policy
    if given is None or floor is None:
        return None
    if case.operation in ROW_OPERATIONS:
        return judge_row(case, answer, policy, floor)
    if case.operation == GENERATED:
        return judge_tokens(case, answer, evidence, floor)
    return judge_moved(case, answer, given, policy, floor) if case.operation == MOVED else None


def _difference(case: VectorCase, answer: Record) -> Difference | None:
    expected = case.expected
    assert expected is not None
    for field in ("ids", "values", "text"):
        wanted = getattr(expected, field)
        if (wanted is not None) != answer.has(field):
            problem = Problem.MISSING if wanted is not None else Problem.EXTRA
            return Difference(problem, answer.label, field)
    if expected.ids is not None:
        return _first_unequal(answer.label, "ids", expected.ids, answer.integers("ids"))
    if expected.values is not None:
        return _first_unequal(answer.label, "values", expected.values, answer.bits("values"))
    if answer.get("text") != expected.text:
        return Difference(Problem.VALUE, answer.label, "text", None, str(expected.text), answer.get("text"))
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
