"""From a distribution and a draw to a token: intervals, both ends of the range, and the exact law."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import SamplingError
from cai_reference.decoding.sampling import SamplingSettings, choose, distribution_of, draw, intervals, sample
from cai_reference.errors import ModelError
from cai_reference.splitmix import SplitMix64
from support_refusals import raises
from support_sampling import EXACT, Given, law_of

LARGEST = 1.0 - 2.0**-53
QUARTERS = np.array([-2.0, 0.0, -1.0, -2.0])

real_logits = st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=8)


def law_by_counting(probabilities: Array) -> list[Fraction]:
    """Return the law of the 2^53 equally likely draws: how many of them each interval holds."""
    law = [Fraction(0)] * len(probabilities)
    for interval in intervals(probabilities):
        first, behind = (math.ceil(Fraction(bound) * 2**53) for bound in (interval.start, interval.end))
        law[interval.token] = Fraction(behind - first, 2**53)
    return law


class TestIntervals:
    """Ascending ids, end to end, from 0 to 1."""

    def test_quarters(self) -> None:
        """⅛, ½, ¼, ⅛ by id."""
        found = intervals(distribution_of(QUARTERS, SamplingSettings(), EXACT).probabilities)
        expected = [(0, 0.0, 0.125), (1, 0.125, 0.625), (2, 0.625, 0.875), (3, 0.875, 1.0)]
        assert expected == [(interval.token, interval.start, interval.end) for interval in found]

    def test_ids_without_probability_own_nothing(self) -> None:
        """The first, one inside and the last."""
        found = list(intervals(np.array([0.0, 0.5, 0.0, 0.5, 0.0])))
        assert [(1, 0.0, 0.5), (3, 0.5, 1.0)] == [(interval.token, interval.start, interval.end) for interval in found]

    def test_the_last_one_takes_what_rounding_has_lost(self) -> None:
        """Ten tenths add up to less than 1; three parts that add up to more are cut at 1."""
        tenths = list(intervals(np.array([0.1] * 10)))
        assert (0.8999999999999999, 1.0) == (tenths[-1].start, tenths[-1].end)
        crowded = [(interval.start, interval.end) for interval in intervals(np.array([0.6, 0.6, 0.2]))]
        assert [(0.0, 0.6), (0.6, 1.0), (1.0, 1.0)] == crowded


class TestEnds:
    """The smallest and the largest draw."""

    def test_zero_chooses_the_first_positive_id(self) -> None:
        """Not id 0, whose probability is 0."""
        choice = sample(np.array([-5000.0, 0.0, 0.0]), SamplingSettings(), EXACT, Given(0.0))
        assert (1, 0.0, 0.5) == (choice.token, choice.interval.start, choice.interval.end)

    def test_the_largest_draw_chooses_the_last_positive_id(self) -> None:
        """Though the probabilities add up to less than 1, and a later id has none."""
        assert 9 == choose(np.array([0.1] * 10 + [0.0]), LARGEST).token

    @given(real_logits, st.floats(0.05, 20.0))
    @settings(max_examples=20)
    def test_every_boundary_belongs_to_what_follows(self, logits: list[float], temperature: float) -> None:
        """At each start the interval's own token comes, and below each end as well."""
        probabilities = distribution_of(np.array(logits), SamplingSettings(temperature), STRICT).probabilities
        for interval in intervals(probabilities):
            if interval.start < interval.end:
                assert interval == choose(probabilities, interval.start)
                assert interval == choose(probabilities, float(np.nextafter(interval.end, 0.0)))


class TestLaw:
    """Draws that are equally likely give tokens as likely as the distribution says."""

    def test_dyadic_probabilities_come_out_exactly(self) -> None:
        """Sixty-four evenly spaced draws: each token as often as its probability says."""
        probabilities = distribution_of(QUARTERS, SamplingSettings(), EXACT).probabilities
        counted = Counter(choose(probabilities, step / 64).token for step in range(64))
        assert {0: 8, 1: 32, 2: 16, 3: 8} == counted
        assert [Fraction(p) for p in probabilities] == law_by_counting(probabilities)

    @given(real_logits, st.floats(0.05, 20.0), st.integers(1, 64))
    @settings(max_examples=20)
    def test_any_distribution_comes_out_within_rounding(
        self, logits: list[float], temperature: float, top_p: int
    ) -> None:
        """Two ends round to 2^-54 each, the grid adds 2^-53, and the last interval takes the error of the sum."""
        settings = SamplingSettings(temperature, None, top_p / 64)
        probabilities = distribution_of(np.array(logits), settings, STRICT).probabilities
        law = law_by_counting(probabilities)
        assert sum(law) == 1
        bound = Fraction(len(logits) + 4, 2**53)
        assert all(abs(share - Fraction(p)) <= bound for share, p in zip(law, probabilities.tolist(), strict=True))

    def test_the_walk_compares_as_the_law_says(self) -> None:
        """Enumerating what the code compares gives the distribution again."""
        distribution = distribution_of(QUARTERS, SamplingSettings(top_k=3), EXACT)
        law = law_of(lambda generator: draw(distribution, generator).token)
        assert {0: Fraction(1, 7), 1: Fraction(4, 7), 2: Fraction(2, 7)} == {
            token: share.limit_denominator(1000) for token, share in law.items()
        }

    def test_a_long_run_of_the_generator(self) -> None:
        """Four thousand draws are within five standard deviations of the law."""
        generator = SplitMix64(7)
        distribution = distribution_of(QUARTERS, SamplingSettings(), EXACT)
        counted = Counter(draw(distribution, generator).token for _ in range(4000))
        for token, probability in enumerate((0.125, 0.5, 0.25, 0.125)):
            deviation = (4000 * probability * (1 - probability)) ** 0.5
            assert abs(counted[token] - 4000 * probability) <= 5 * deviation


class TestGenerator:
    """How far it moves."""

    def test_one_draw_a_token_and_none_at_temperature_zero(self) -> None:
        """A single possible token takes one, too."""
        generator = Given(0.5, 0.5)
        greedy = sample(QUARTERS, SamplingSettings(0.0), STRICT, generator)
        assert (0, 1, None, 1.0) == (generator.state, greedy.token, greedy.unit, greedy.probability)
        assert (0.0, 1.0, (1,)) == (greedy.interval.start, greedy.interval.end, greedy.kept)
        alone = sample(QUARTERS, SamplingSettings(top_k=1), STRICT, generator)
        assert (1, 1, 0.5, 1.0) == (generator.state, alone.token, alone.unit, alone.probability)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_logits_that_are_no_numbers_are_refused(self, value: float, temperature: float) -> None:
        """At any temperature, by the lowest id, before anything is drawn."""
        generator = SplitMix64(3)
        with raises(ModelError("non-finite-logit", token_id=1, value=value)):
            sample(np.array([0.0, value, math.nan]), SamplingSettings(temperature), STRICT, generator)
        with raises(SamplingError("invalid-top-k", top_k=3, vocabulary=2)):
            sample(np.zeros(2), SamplingSettings(temperature, 3), STRICT, generator)
        assert generator.state == 3

    def test_a_choice_says_what_was_kept(self) -> None:
        """And what the token's probability was."""
        choice = sample(QUARTERS, SamplingSettings(top_k=3), EXACT, Given(0.2))
        assert (1, (1, 2, 0), 4 / 7, 0.2) == (choice.token, choice.kept, choice.probability, choice.unit)
        assert (1 / 7, 1 / 7 + 4 / 7) == (choice.interval.start, choice.interval.end)
