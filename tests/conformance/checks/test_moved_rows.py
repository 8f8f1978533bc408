"""Which rows move when a token is exchanged, where bits are not defined."""

from __future__ import annotations

import pytest

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.checks.window import judge_moved
from cai_conformance.fixtures.vectors import Answer
from cai_conformance.verdicts import Outcome
from support_engines import SUITE, floor_of, vector_case
from support_foreign_engines import given

CASE = vector_case(SUITE, "kv.reach.full")


def right_places() -> tuple[int, ...]:
    """Return the rows that the reference moves: those that a window of 7 reaches through two layers."""
    assert CASE.expected is not None and CASE.expected.ids is not None
    return CASE.expected.ids


def judged(found: tuple[int, ...], floor: NoiseFloor, policy: str = "measured") -> Finding:
    """Return the finding about rows that moved."""
    return judge_moved(CASE, Answer(ids=found), given(SUITE), parse_policy(policy), floor)


def test_a_window_reaches_through_all_layers() -> None:
    """Two layers of a window of seven, the current token included: twelve behind the first."""
    assert tuple(range(13)) == right_places()


def test_the_same_rows_pass() -> None:
    """In whatever order they are told."""
    assert Outcome.PASS is judged(right_places(), floor_of(1.0)).outcome
    assert Outcome.PASS is judged(right_places()[::-1], floor_of(1.0)).outcome


@pytest.mark.parametrize("found", [(*range(14),), (*range(12), 13), (13,)])
def test_a_row_that_must_not_move_fails(found: tuple[int, ...]) -> None:
    """Whatever rounding hides, one token beyond the window is a fault."""
    finding = judged(found, floor_of(1e300))
    assert Outcome.FAIL is finding.outcome
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]" in finding.differences[0].expected


def test_a_row_that_stays_fails_unless_rounding_hides_it() -> None:
    """A window that is a token too short is hidden by nothing in double precision."""
    stayed = right_places()[:-1]
    finding = judged(stayed, floor_of(4.0))
    assert Outcome.FAIL is finding.outcome
    hidden = judged(stayed, floor_of(1e15))
    assert (Outcome.PASS, "1 row stayed that the reference moves by less than rounding hides") == (
        hidden.outcome,
        hidden.message,
    )
    assert Outcome.FAIL is judged(stayed, floor_of(1e15), "ulp:4").outcome


def test_no_rows_at_all_fail() -> None:
    """As does an answer of another kind."""
    assert Outcome.FAIL is judged((), floor_of(4.0)).outcome
    finding = judge_moved(CASE, Answer(values=(1.0,)), given(SUITE), parse_policy("measured"), floor_of(4.0))
    assert Outcome.FAIL is finding.outcome
