"""Rows of logits under each policy: what passes, what is a near tie, and what fails, by rows worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.checks.tolerance.rows import judge_row
from cai_conformance.checks.vectors import vector_check
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Outcome, Problem
from support_engines import SUITE, evidence_with, floor_of, question, vector_case

RIGHT: Final = (1.0, 3.0, 3.0 - 2.0**-49, -2.0)
UNIT: Final = 2.0**-51
"""In float64, at the largest logit, which leads by four units."""


def judged(values: tuple[float, ...], policy: str = "measured", floor: NoiseFloor | None = None) -> Finding:
    """Return the finding about a row; a floor of one unit allows four."""
    case = VectorCase("x", "fwd.oracle", "decoder.logits", {"start": 0}, "a wrong sign", Answer(values=RIGHT))
    return judge_row(case, Answer(values=values), parse_policy(policy), floor_of(1.0) if floor is None else floor)


def moved(place: int, units: float) -> tuple[float, ...]:
    """Return the right row with one logit moved by some units."""
    return tuple(value + units * UNIT if at == place else value for at, value in enumerate(RIGHT))


class TestRows:
    """Of four logits."""

    @pytest.mark.parametrize(
        ("place", "units", "outcome"),
        [
            (0, 0.0, Outcome.PASS),
            (0, 4.0, Outcome.PASS),
            (0, -4.0, Outcome.PASS),
            (0, 4.5, Outcome.FAIL),
            (3, 400.0, Outcome.FAIL),
            (2, 4.0, Outcome.PASS),
            (1, -4.0, Outcome.PASS),
            (1, -5.0, Outcome.FAIL),
        ],
    )
    def test_four_floors_are_allowed(self, place: int, units: float, outcome: Outcome) -> None:
        """In units of the largest logit, wherever it moves; equal maxima are chosen by their place."""
        assert outcome is judged(moved(place, units)).outcome

    def test_another_choice_within_the_floor_is_a_near_tie(self) -> None:
        """The message says by how much the right one led."""
        finding = judged(moved(2, 6.0), floor=floor_of(2.0))
        assert Outcome.NEAR_TIE is finding.outcome
        assert finding.message == (
            f"the largest logit is that of 2, not of 1, which leads by {2.0**-49:.3g}; off by 6 ULP of float64 at the "
            "row's largest logit, 8 allowed, 4 floors; KL 0 nats"
        )
        assert "x" == finding.case

    def test_the_users_number_is_taken_as_it_is(self) -> None:
        """Not times four, and a floor does not matter."""
        assert Outcome.PASS is judged(moved(0, 2.0), "ulp:2").outcome
        assert Outcome.FAIL is judged(moved(0, 2.5), "ulp:2", floor_of(100.0)).outcome
        assert Outcome.PASS is judged(RIGHT, "ulp:0").outcome
        assert Outcome.FAIL is judged(moved(0, 1.0), "ulp:0").outcome
        assert "2 allowed; KL" in judged(moved(0, 1.0), "ulp:2").message

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_no_number_fails_whatever_is_allowed(self, value: float) -> None:
        """At its place."""
        finding = judged((1.0, 3.0, value, -2.0), "ulp:1e300")
        assert Outcome.FAIL is finding.outcome
        (difference,) = finding.differences
        assert (Problem.NAN if math.isnan(value) else Problem.VALUE, "values", 2, None) == (
            difference.problem,
            difference.field,
            difference.index,
            difference.ulp,
        )

    @pytest.mark.parametrize("values", [(), (1.0, 3.0), (*RIGHT, 0.0)])
    def test_rows_of_another_length_have_another_shape(self, values: tuple[float, ...]) -> None:
        """Both lengths are told."""
        finding = judged(values)
        assert Outcome.FAIL is finding.outcome
        assert finding.message == (
            f"SAMPLE case=fwd.oracle.x draw=0, field values: shape, expected 4 items, found {len(values)} items. "
            "Typical cause: a wrong sign"
        )

    def test_an_answer_of_another_kind_has_another_shape(self) -> None:
        """Ids where values are asked for."""
        case = VectorCase("x", "fwd.oracle", "decoder.logits", {}, "nothing", Answer(values=RIGHT))
        assert Outcome.FAIL is judge_row(case, Answer(ids=(1, 2)), parse_policy("measured"), floor_of(1.0)).outcome

    def test_a_failure_names_the_furthest_logit(self) -> None:
        """With both values, in bits."""
        row = list(moved(0, 7.0))
        row[3] += 9 * UNIT
        (difference,) = judged(tuple(row)).differences
        assert 3 == difference.index
        # Between 1 and 2 numbers lie half as far apart as between 2 and 4.
        assert 18 == difference.ulp


class TestCoarse:
    """Formats with few bits are held to the divergence as well."""

    def test_many_small_steps_in_one_direction_diverge(self) -> None:
        """Each logit is within its units; together they are another distribution."""
        right = np.zeros(64)
        right[0] = 4.0
        found = right.copy()
        found[1:] += 0.0625
        case = VectorCase("x", "fwd.oracle", "decoder.logits", {"start": 0}, "", Answer(values=tuple(right.tolist())))
        answer = Answer(values=tuple(found.tolist()))
        floor = floor_of(1.0, precision="bfloat16", divergence=1e-7)
        assert Outcome.FAIL is judge_row(case, answer, parse_policy("measured"), floor).outcome
        assert Outcome.PASS is judge_row(case, answer, parse_policy("ulp:4"), floor).outcome
        fine = replace(floor_of(1e9, precision="float32", divergence=1e-7))
        assert Outcome.PASS is judge_row(case, answer, parse_policy("measured"), fine).outcome
        much = floor_of(1.0, precision="bfloat16", divergence=1e-4)
        assert Outcome.PASS is judge_row(case, answer, parse_policy("measured"), much).outcome

    def test_far_rows_have_the_far_floor(self) -> None:
        """By where their sequence starts."""
        for start, outcome in ((0, Outcome.FAIL), (3000, Outcome.PASS)):
            case = VectorCase("x", "fwd.oracle", "decoder.logits", {"start": start}, "", Answer(values=RIGHT))
            answer = Answer(values=moved(0, 30.0))
            assert outcome is judge_row(case, answer, parse_policy("measured"), floor_of(1.0, 10.0)).outcome


class TestPolicies:
    """Which judge a case gets."""

    def outcomes(self, policy: str, arithmetic: str, units: int) -> Outcome:
        """Return the outcome of the row of a suite, moved by units in the last place of its first logit."""
        asked = question(SUITE, policy, arithmetic, "fwd.oracle.far")
        case = vector_case(SUITE, "fwd.oracle.far")
        last = vector_case(SUITE, "fwd.oracle.last").expected
        assert case.expected is not None and case.expected.values is not None and last is not None
        values = list(case.expected.values)
        for _ in range(units):
            values[0] = math.nextafter(values[0], math.inf)
        answers = {"fwd.oracle.last": last, case.identifier: Answer(values=tuple(values))}
        found = vector_check("fwd.oracle")(evidence_with(asked, answers, floor_of(1.0)))
        assert Outcome.PASS is found[0].outcome
        return found[1].outcome

    @pytest.mark.parametrize(
        ("policy", "arithmetic", "units", "outcome"),
        [
            ("auto", "strict/1", 0, Outcome.PASS),
            ("auto", "strict/1", 1, Outcome.FAIL),
            ("auto", "float64", 1, Outcome.PASS),
            ("auto", "libm/1", 1, Outcome.PASS),
            ("exact", "float64", 1, Outcome.FAIL),
            ("exact", "float64", 0, Outcome.PASS),
            ("measured", "strict/1", 1, Outcome.PASS),
            ("ulp:0", "strict/1", 1, Outcome.FAIL),
            ("ulp:1", "float64", 1, Outcome.PASS),
        ],
    )
    def test_bits_are_compared_where_the_policy_says(
        self, policy: str, arithmetic: str, units: int, outcome: Outcome
    ) -> None:
        """One unit in the last place of one logit tells the policies apart."""
        assert outcome is self.outcomes(policy, arithmetic, units)

    def test_answers_that_are_no_matter_of_a_model_keep_their_bits(self) -> None:
        """In strict arithmetic under every policy; elsewhere bits are not defined, and the case is skipped."""
        suite, name = "course.decoder", "smp.law.plain"
        right = vector_case(suite, name).expected
        assert right is not None and right.values is not None
        wrong = Answer(values=(math.nextafter(right.values[0], 1.0), *right.values[1:]))
        for policy in ("auto", "measured", "ulp:4", "exact"):
            for answer, outcome in ((right, Outcome.PASS), (wrong, Outcome.FAIL)):
                asked = question(suite, policy, "strict/1", name)
                (finding,) = vector_check("smp.law")(evidence_with(asked, {name: answer}, floor_of(1.0)))
                assert outcome is finding.outcome
        asked = question(suite, "auto", "float64", name)
        (finding,) = vector_check("smp.law")(evidence_with(asked, {name: right}, floor_of(1.0)))
        assert Outcome.SKIPPED is finding.outcome
        assert "the answer's bits are those of strict/1; the backend ran in float64" == finding.message

    def test_a_case_without_an_answer_is_skipped(self) -> None:
        """And a check without cases fails: the file is not that of this program."""
        evidence = evidence_with(question(SUITE, "auto", "float64", "fwd.oracle.far"), {}, floor_of(1.0))
        assert {Outcome.SKIPPED} == {finding.outcome for finding in vector_check("fwd.oracle")(evidence)}
        (finding,) = vector_check("gen.given")(evidence)
        assert (Outcome.FAIL, "vectors.json holds no case of this check") == (finding.outcome, finding.message)
