"""The course's sampler: stated values of chapter 36, plain loops, and errors that leave the generator alone."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.decoding.errors import SamplingError
from cai_reference.decoding.sampling import compensated_sum, course_distribution, course_sample
from cai_reference.errors import CaiReferenceError, ModelError
from cai_reference.splitmix import SplitMix64
from support_refusals import raises

LOGITS = np.array([0.0, 1.0, 1.0, 2.0])
SMALLEST_NORMAL = 2.2250738585072014e-308

# Computed with forty digits: exp of the gaps to the logit 2, over their sum.
PUBLISHED_CASES = {
    (0.5, 2): (0.0, 0.119202922022, 0.0, 0.880797077978),
    (0.5, 3): (0.0, 0.106506978919, 0.106506978919, 0.786986042162),
    (0.5, 4): (0.014209336619, 0.104993585404, 0.104993585404, 0.775803492574),
    (1.0, 2): (0.0, 0.268941421370, 0.0, 0.731058578630),
    (1.0, 3): (0.0, 0.211941557617, 0.211941557617, 0.576116884766),
    (1.0, 4): (0.072329488129, 0.196611933241, 0.196611933241, 0.534446645389),
    (2.0, 2): (0.0, 0.377540668798, 0.0, 0.622459331202),
    (2.0, 3): (0.0, 0.274068619061, 0.274068619061, 0.451862761878),
    (2.0, 4): (0.142536956597, 0.235003712202, 0.235003712202, 0.387455619000),
}

# Seed 36, by the definition of the generator; ids 1, 2, 3 own [0, .2119), [.2119, .4239) and [.4239, 1).
UNITS = [
    0.9128888940969259,
    0.33883339452310113,
    0.2953713789315612,
    0.3500920472610919,
    0.5780545297837946,
    0.6600970512754676,
    0.8361306329037709,
    0.6575895796417442,
]
TOKENS = [3, 2, 2, 2, 3, 3, 3, 3]

finite = st.floats(allow_nan=False, allow_infinity=False)
some_logits = st.lists(st.one_of(finite, st.integers(-3, 3).map(float)), min_size=1, max_size=9)
temperatures = st.one_of(
    st.floats(0.01, 100.0), st.floats(5e-324, 1e308), st.sampled_from([SMALLEST_NORMAL, 0.5, 1.0, 2.0])
)


def looped(logits: Sequence[float], temperature: float, top_k: int) -> tuple[list[int], list[float]]:
    """Return kept ids and probabilities by the rule of the course, one number after the other."""
    kept = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    highest = logits[kept[0]]
    weights = [1.0]
    for token in kept[1:]:
        if temperature < 1.0:
            gap = (logits[token] - highest) / temperature
        else:
            gap = logits[token] / temperature - highest / temperature
        weights.append(math.exp(gap))
    total = compensation = 0.0
    for weight in weights:
        corrected = weight - compensation
        following = total + corrected
        compensation = (following - total) - corrected
        total = following
    probabilities = [0.0] * len(logits)
    for token, weight in zip(kept, weights, strict=True):
        probabilities[token] = weight / total
    return kept, probabilities


class TestDistribution:
    """Ranks, weights, normaliser."""

    @pytest.mark.parametrize("arithmetic", [STRICT, LIBM], ids=lambda arithmetic: arithmetic.identifier)
    @pytest.mark.parametrize(("temperature", "top_k"), PUBLISHED_CASES)
    def test_the_published_logits(self, temperature: float, top_k: int, arithmetic: Arithmetic) -> None:
        """Twelve decimals at the published temperatures and cuts, in both arithmetics with defined bits."""
        distribution = course_distribution(LOGITS, temperature, top_k, arithmetic)
        printed = [f"{probability:.12f}" for probability in distribution.probabilities]
        assert [f"{probability:.12f}" for probability in PUBLISHED_CASES[temperature, top_k]] == printed
        assert "1.000000000000" == f"{distribution.total:.12f}"

    def test_a_tie_at_the_cut_keeps_the_smaller_id(self) -> None:
        """Ids 1 and 2 tie behind 3; two places keep 3 and 1."""
        assert (3, 1) == course_distribution(LOGITS, 1.0, 2, STRICT).kept
        assert (3, 1, 2) == course_distribution(LOGITS, 1.0, 3, STRICT).kept

    def test_zeros_of_both_signs_tie(self) -> None:
        """They are equal numbers, so that the id decides."""
        assert (0, 1, 2) == course_distribution(np.array([-0.0, 0.0, -0.0]), 1.0, 3, STRICT).kept

    def test_what_underflows_is_kept_but_outside_the_support(self) -> None:
        """At the smallest normal temperature two equal logits share everything, exactly."""
        distribution = course_distribution(np.array([2.0, 2.0, 1.0]), SMALLEST_NORMAL, 3, STRICT)
        assert [0.5, 0.5, 0.0] == distribution.probabilities.tolist()
        assert (0, 1, 2) == distribution.kept
        assert (0, 1) == distribution.support()

    @pytest.mark.parametrize("temperature", [5e-324, SMALLEST_NORMAL, 0.999, 1.0, 1e308])
    def test_gaps_beyond_the_range_of_numbers(self, temperature: float) -> None:
        """Neither form of the gap gives NaN: the difference overflows to a weight of 0, or the quotients stay small."""
        huge = 1.7976931348623157e308
        got = course_distribution(np.array([-huge, huge]), temperature, 2, STRICT).probabilities.tolist()
        # From 1 on the quotients are ±huge/temperature; only at 1e308 is their difference within reach of exp.
        expected = 1.0 / (1.0 + math.exp(-2.0 * 1.7976931348623157)) if temperature == 1e308 else 1.0
        assert got[1] == pytest.approx(expected, rel=1e-15)
        assert got[0] == pytest.approx(1.0 - expected, rel=1e-13)

    @given(some_logits, temperatures, st.data())
    @settings(max_examples=20)
    def test_every_bit_is_that_of_plain_loops(
        self, logits: list[float], temperature: float, data: st.DataObject
    ) -> None:
        """With the C library's exponential, whatever the logits."""
        top_k = data.draw(st.integers(1, len(logits)))
        kept, probabilities = looped(logits, temperature, top_k)
        distribution = course_distribution(np.array(logits), temperature, top_k, LIBM)
        assert kept == list(distribution.kept)
        assert probabilities == distribution.probabilities.tolist()

    def test_many_ids_are_added_in_rank_order_with_compensation(self) -> None:
        """Two hundred weights, whose sum is another one without compensation, and the other way round."""
        generator, plain, backwards = SplitMix64(1), 0, 0
        for _ in range(12):
            logits = [8.0 * generator.unit() for _ in range(200)]
            kept, probabilities = looped(logits, 1.0, 200)
            assert probabilities == course_distribution(np.array(logits), 1.0, 200, LIBM).probabilities.tolist()
            highest = logits[kept[0]]
            weights = [1.0, *(math.exp(logits[token] - highest) for token in kept[1:])]
            plain += probabilities[kept[0]] != 1.0 / functools.reduce(operator.add, weights)
            backwards += probabilities[kept[0]] != 1.0 / compensated_sum(weights[::-1])
        assert plain > 0
        assert backwards > 0

    @given(some_logits, temperatures)
    @settings(max_examples=20)
    def test_the_sum_is_within_six_roundings_of_one(self, logits: list[float], temperature: float) -> None:
        """The normaliser is off by at most 2 units, each quotient by 1, the summing by 2; one is left for products."""
        unit = 2.0**-53
        distribution = course_distribution(np.array(logits), temperature, len(logits), STRICT)
        assert abs(distribution.total - 1.0) <= 6 * unit
        assert abs(math.fsum(distribution.probabilities) - 1.0) <= 4 * unit

    def test_the_compensated_sum_keeps_what_a_plain_one_loses(self) -> None:
        """A thousand terms below the last bit of 1 vanish one by one, but not together."""
        small = 2.0**-54
        assert functools.reduce(operator.add, [1.0] + [small] * 1000) == 1.0
        assert compensated_sum([1.0] + [small] * 1000) == 1.0 + 1000 * small
        assert compensated_sum([]) == 0.0


class TestDraws:
    """One draw a token, walked by ascending id."""

    def test_the_draws_of_seed_36(self) -> None:
        """Temperature 1, three ids kept: units, tokens, intervals, and the state after eight draws."""
        generator = SplitMix64(36)
        choices = [course_sample(LOGITS, 1.0, 3, STRICT, generator) for _ in UNITS]
        assert UNITS == [choice.unit for choice in choices]
        assert TOKENS == [choice.token for choice in choices]
        owned = {1: ("0.000000000000", "0.211941557617"), 2: ("0.211941557617", "0.423883115234")}
        owned[3] = ("0.423883115234", "1.000000000000")
        for choice in choices:
            interval = choice.interval
            assert owned[choice.token] == (f"{interval.start:.12f}", f"{interval.end:.12f}")
            assert choice.token == interval.token
            assert PUBLISHED_CASES[1.0, 3][choice.token] == pytest.approx(choice.probability, abs=1e-12)
        assert generator.state == 0xF1BBCDCBFA53E0CC

    def test_one_kept_id_takes_a_draw_all_the_same(self) -> None:
        """Top-k 1 is stochastic by name: the generator moves, the interval is everything."""
        generator = SplitMix64(36)
        choice = course_sample(LOGITS, 1.0, 1, STRICT, generator)
        assert (3, UNITS[0], 0.0, 1.0) == (choice.token, choice.unit, choice.interval.start, choice.interval.end)
        assert generator.state != 36


def no_exponential(x: Array | float, /) -> Array:
    """Return NaN everywhere."""
    return np.full(np.shape(x), np.nan)


class TestErrors:
    """Looked for in a fixed order, before the generator moves."""

    @pytest.mark.parametrize(
        ("error", "logits", "temperature", "top_k"),
        [
            (SamplingError("empty-logits"), np.array([]), 0.0, 0),
            (
                SamplingError("vocabulary-too-large", vocabulary=2**32 + 1, limit=2**32),
                np.broadcast_to(np.float64(0), (2**32 + 1,)),
                0.0,
                0,
            ),
            (ModelError("non-finite-logit", token_id=1, value=math.nan), np.array([1.0, math.nan, math.inf]), 0.0, 0),
            (ModelError("non-finite-logit", token_id=0, value=-math.inf), np.array([-math.inf, 1.0]), 1.0, 2),
            (ModelError("non-finite-logit", token_id=1, value=math.inf), np.array([0.0, math.inf]), 1.0, 1),
            (SamplingError("invalid-temperature", value=0.0), LOGITS, 0.0, 0),
            (SamplingError("invalid-temperature", value=-1.0), LOGITS, -1.0, 2),
            (SamplingError("invalid-temperature", value=math.nan), LOGITS, math.nan, 2),
            (SamplingError("invalid-temperature", value=math.inf), LOGITS, math.inf, 2),
            (SamplingError("invalid-top-k", top_k=0, vocabulary=4), LOGITS, 1.0, 0),
            (SamplingError("invalid-top-k", top_k=5, vocabulary=4), LOGITS, 1.0, 5),
            (SamplingError("invalid-top-k", top_k=-1, vocabulary=4), LOGITS, 1.0, -1),
        ],
        ids=lambda value: value.code if isinstance(value, CaiReferenceError) else "",
    )
    def test_nothing_moves_the_generator(
        self, error: CaiReferenceError, logits: Array, temperature: float, top_k: int
    ) -> None:
        """Class, values, and the state of before."""
        generator = SplitMix64(36)
        with raises(error):
            course_sample(logits, temperature, top_k, STRICT, generator)
        assert generator.state == 36

    def test_an_exponential_that_is_none_is_noticed(self) -> None:
        """The sum is looked at before anything is drawn."""
        generator = SplitMix64(36)
        with raises(SamplingError("invalid-probability-sum", total=math.nan)):
            course_sample(LOGITS, 1.0, 3, replace(STRICT, exp=no_exponential), generator)
        assert generator.state == 36
