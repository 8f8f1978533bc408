"""Policies: names that are read and printed, and what each of them means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.checks.tolerance.policy import AUTO, FACTOR, Policy, PolicyKind, parse_policy
from cai_conformance.checks.tolerance.rows import allowed_ulps
from cai_conformance.errors import SelectionError
from support_engines import level_of
from support_refusals import refuses


@pytest.mark.parametrize("text", ["auto", "exact", "measured", "ulp:0", "ulp:4", "ulp:0.5", "ulp:1234567"])
def test_a_policy_prints_as_it_is_read(text: str) -> None:
    """In every digit."""
    assert text == str(parse_policy(text))


@given(st.floats(0.0, allow_infinity=False, allow_nan=False))
def test_any_number_of_units_is_read_back(ulps: float) -> None:
    """Whatever its size."""
    policy = Policy(PolicyKind.ULP, abs(ulps))
    assert policy == parse_policy(str(policy))


@pytest.mark.parametrize(
    "text",
    ["", "ulp", "ulp:", "ulp:x", "ulp:-1", "ulp:nan", "ulp:inf", "exact:", "exact:3", "auto:1", "Exact", "loose", ":4"],
)
def test_any_other_text_is_unknown(text: str) -> None:
    """The message says what there is."""
    with refuses(SelectionError, "unknown-policy") as caught:
        parse_policy(text)
    assert isinstance(caught.value, SelectionError)
    assert f"policy {text!r} is unknown; it is exact, ulp:N, measured or auto" == str(caught.value)


def test_bits_are_compared_where_they_are_defined() -> None:
    """By `auto` there alone, by `exact` everywhere, by the others nowhere."""
    answers = {kind: tuple(Policy(kind).is_exact(bitwise=bitwise) for bitwise in (True, False)) for kind in PolicyKind}
    assert {
        PolicyKind.AUTO: (True, False),
        PolicyKind.EXACT: (True, True),
        PolicyKind.ULP: (False, False),
        PolicyKind.MEASURED: (False, False),
    } == answers


def test_what_is_allowed_is_the_users_number_or_some_floors() -> None:
    """The floor is not asked about where the user has said a number."""
    assert 4.0 == FACTOR
    assert 12.0 == allowed_ulps(AUTO, level_of(3.0)) == allowed_ulps(parse_policy("measured"), level_of(3.0))
    assert 7.5 == allowed_ulps(parse_policy("ulp:7.5"), level_of(3.0))
