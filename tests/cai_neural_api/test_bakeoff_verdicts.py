"""The published verdict rules, at their bounds."""

from __future__ import annotations

import math

import pytest

from cai_neural_api.bakeoff.verdicts import Bucket, Word, decode_cost, grouped_convergence, hybrid_convergence, speedup


def steps(*milliseconds: float) -> tuple[Bucket, ...]:
    """Return buckets of these costs."""
    return tuple(Bucket(str(place), 1, cost) for place, cost in enumerate(milliseconds))


class TestConvergence:
    """A loss, and those of other phases."""

    @pytest.mark.parametrize(
        ("loss", "word"),
        [
            (1.39, Word.HOLDS),
            (2.389, Word.HOLDS),
            (2.391, Word.NOT_CONFIRMED),
            (2.53, Word.NOT_CONFIRMED),
            (7.9, Word.NOT_CONFIRMED),
            (0.0, Word.NOT_CONFIRMED),
            (-1.0, Word.NOT_CONFIRMED),
            (math.nan, Word.NOT_CONFIRMED),
        ],
    )
    def test_the_hybrid_beats_the_pure_stacks(self, loss: float, word: Word) -> None:
        """At most 2.34 + 0.05, and more than nothing."""
        assert word is hybrid_convergence(loss).word

    @pytest.mark.parametrize(
        ("loss", "word"),
        [(1.58, Word.HOLDS), (1.859, Word.HOLDS), (1.861, Word.NOT_CONFIRMED), (0.0, Word.NOT_CONFIRMED)],
    )
    def test_the_grouped_hybrid_comes_near_the_dense_one(self, loss: float, word: Word) -> None:
        """At most 1.61 + 0.25."""
        assert word is grouped_convergence(loss).word


class TestDecodeCost:
    """Cheap, and as cheap behind long prefixes as behind short ones."""

    @pytest.mark.parametrize(
        ("each", "costs", "word"),
        [
            (0.35, (0.304, 0.306, 0.303), Word.HOLDS),
            (2.0, (1.0, 2.0), Word.HOLDS),
            (2.0, (1.0, 2.01), Word.PARTIAL),
            (2.01, (1.0, 1.0), Word.NOT_CONFIRMED),
            (2.01, (1.0, 9.0), Word.NOT_CONFIRMED),
            (0.0, (0.0, 0.0), Word.HOLDS),
            (0.1, (0.0, 1.0), Word.PARTIAL),
        ],
    )
    def test_both_conditions(self, each: float, costs: tuple[float, ...], word: Word) -> None:
        """The range alone is half the claim; flatness alone is nothing."""
        assert word is decode_cost(each, steps(*costs)).word

    def test_the_reason_states_what_decided(self) -> None:
        """Both numbers with their bounds."""
        reason = decode_cost(0.346, steps(0.303, 0.306)).reason
        assert "0.35 ms a token, at most 2.0; steps from 0.303 to 0.306 ms, at most 2 times" == reason


class TestSpeedup:
    """A quotient of times."""

    def test_a_time_of_nothing_does_not_divide_by_zero(self) -> None:
        """It counts as a billionth, as published."""
        assert 4.0 == speedup(8.0, 2.0)
        assert 8e9 == pytest.approx(speedup(8.0, 0.0))
