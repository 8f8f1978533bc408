"""Initial values by their law: draws of another generator pass, and each way to draw them wrongly fails."""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.finding import witnessed
from cai_conformance.checks.initial_values import judge_initial_statistics
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.vectors import Answer, Answers
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic import Array

PASS, FAIL, SKIPPED = Outcome.PASS, Outcome.FAIL, Outcome.SKIPPED
CASE: Final = "init.golden.rounding"
LIMITS: Final = (sqrt(6.0 / 20.0), sqrt(6.0 / 8.0))
SIZES: Final = (64, 16)


@cache
def question() -> Question:
    """Return the question of the suite's vector cases."""
    return question_for(find_suite("ngram"), GoldenStore(locate()), Options(profile="edges"))


def judged(values: Array | None) -> dict[str, tuple[Outcome, str]]:
    """Return what is said of an answer, by cases."""
    given = {} if values is None else {CASE: Answer(values=tuple(values.tolist()))}
    evidence = Evidence(ReferenceBackend(), question())
    vars(evidence)["answers"] = Answers("float32", {}, given)
    found = (witnessed(each, judge_initial_statistics.witnesses) for each in judge_initial_statistics(evidence))
    return {each.case: (each.outcome, each.message) for each in found}


def drawn(seed: int = 1) -> list[Array]:
    """Draw both tensors by NumPy's generator."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(-limit, limit, size) for limit, size in zip(LIMITS, SIZES, strict=True)]


class TestGoodDraws:
    """Whatever the generator and the format."""

    def test_the_suites_own_answer_passes(self) -> None:
        """And says how wide the draws are spread, and how wide they may be."""
        right = next(case for case in question().vectors.cases if case.identifier == CASE).expected
        assert right is not None and right.values is not None
        found = judged(np.array(right.values))
        assert [PASS, PASS] == [found[case][0] for case in judge_initial_statistics.cases]
        assert "the law's is 0.316, and of 64 draws it lies between 0.21 and 0.395" in found["law"][1]

    def test_other_generators_pass(self) -> None:
        """Twelve of them, also where numbers are rounded to float32 or to three digits."""
        for seed in range(12):
            values = np.concatenate(drawn(seed))
            for rounded in (values, values.astype(np.float32).astype(np.float64), np.round(values, 3)):
                assert {PASS} == {outcome for outcome, _ in judged(rounded).values()}, seed


class TestWrongDraws:
    """Each is found by one of the two cases, and told."""

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            (lambda one, other: [one * LIMITS[0], other * LIMITS[1]], "spread by a standard deviation of 0."),
            (lambda one, other: [one, other * 0.25], "the largest of 16 draws of init.golden.rounding 1 is"),
            (lambda one, other: [np.abs(one), other], "the mean of init.golden.rounding 0 is"),
            (lambda one, other: [one, other * 2.0], "beyond the limit of 0.866"),
            (lambda one, other: [one * np.inf, other], "has what is no number"),
            (lambda one, other: [np.sign(one) * LIMITS[0], other], "is spread by"),
        ],
        ids=["variance", "too-small", "positive", "too-large", "infinite", "two-values"],
    )
    def test_another_law(self, wrong: object, words: str) -> None:
        """With the first tensor that breaks it."""
        assert callable(wrong)
        outcome, message = judged(np.concatenate(wrong(*drawn())))["law"]
        assert FAIL is outcome and words in message, message

    def test_tensors_that_begin_with_the_same_draws(self) -> None:
        """But for their limits, and for the last bits."""
        one, _ = drawn()
        other = (one[: SIZES[1]] / LIMITS[0] * LIMITS[1]).astype(np.float32).astype(np.float64)
        found = judged(np.concatenate([one, other]))
        assert (PASS, FAIL) == (found["law"][0], found["distinct"][0])
        assert "rounding 0 and init.golden.rounding 1 begin with the same 16 draws" in found["distinct"][1]

    def test_rows_that_are_the_same_draws(self) -> None:
        """A generator that starts anew for each row."""
        one, other = drawn()
        found = judged(np.concatenate([one, np.tile(other[:4], 4)]))
        assert FAIL is found["distinct"][0]
        assert "rows 0 and 1 of init.golden.rounding 1 are the same draws" in found["distinct"][1]

    def test_an_answer_that_is_missing_or_too_short_has_nothing_to_judge(self) -> None:
        """That it is too short is for the check of its bits."""
        for values in (None, np.concatenate(drawn())[:-1]):
            assert {"": (SKIPPED, "the backend gave no initial values")} == judged(values)
