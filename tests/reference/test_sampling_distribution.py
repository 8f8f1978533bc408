"""Temperature, top-k, top-p and min-p: what each keeps, in which order, and laws that hold for all logits."""

from __future__ import annotations

import functools
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.decoding.errors import SamplingError
from cai_reference.decoding.greedy import greedy_token
from cai_reference.decoding.sampling import SamplingSettings, course_distribution, distribution_of, nucleus
from cai_reference.errors import CaiReferenceError
from support_refusals import raises
from support_sampling import EXACT, probabilities_of

QUARTERS = np.array([-2.0, 0.0, -1.0, -2.0])
"""Under `EXACT` the probabilities ⅛, ½, ¼, ⅛."""

small_logits = st.lists(st.integers(-6, 0).map(float), min_size=1, max_size=8)
real_logits = st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=8)
sixty_fourths = st.integers(1, 64).map(lambda count: count / 64)


def kept(logits: np.ndarray[tuple[int], np.dtype[np.float64]], **settings: float) -> tuple[int, ...]:
    """Return what settings keep, with exact weights."""
    return distribution_of(logits, SamplingSettings(**settings), EXACT).kept  # type: ignore[arg-type]


def kept_by_fractions(logits: list[float], top_k: int, top_p: float, min_p: float) -> list[int]:
    """Return what the three stages keep, by their definitions and without rounding."""
    law = probabilities_of(logits)
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    if top_p < 1:
        mass = sum(law[token] for token in ranked)
        count = next(
            count
            for count in range(1, len(ranked) + 1)
            if sum(law[token] for token in ranked[:count]) >= Fraction(top_p) * mass
        )
        ranked = ranked[:count]
    return [token for token in ranked if law[token] >= Fraction(min_p) * max(law)]


class TestTopP:
    """The shortest run of ranks that has the mass."""

    def test_the_crossing_token_stays(self) -> None:
        """½ and ¼ are below 0.8, so that the first ⅛ is needed."""
        assert (1, 2, 0) == kept(QUARTERS, top_p=0.8)
        assert (1, 2) == kept(QUARTERS, top_p=0.6)
        assert (1,) == kept(QUARTERS, top_p=2.0**-60)

    def test_a_mass_that_is_met_exactly_adds_nothing(self) -> None:
        """½, ¾ and ⅞ are reached by one, two and three ids; a hair more needs another one."""
        for mass, count in ((0.5, 1), (0.75, 2), (0.875, 3)):
            assert (1, 2, 0, 3)[:count] == kept(QUARTERS, top_p=mass)
            assert (1, 2, 0, 3)[: count + 1] == kept(QUARTERS, top_p=float(np.nextafter(mass, 1.0)))

    def test_equal_tenths_are_counted_without_drift(self) -> None:
        """Ten equal ids: n tenths keep n, though the sum of eight doubles 0.1 is less than 0.8."""
        assert functools.reduce(operator.add, [0.1] * 8) < 0.8
        counts = [len(kept(np.zeros(10), top_p=tenths / 10)) for tenths in range(1, 11)]
        assert list(range(1, 11)) == counts

    def test_of_ties_the_smaller_id_stays(self) -> None:
        """Ids 0 and 3 tie at ⅛; one of them is needed."""
        assert 3 not in kept(QUARTERS, top_p=0.8)

    def test_small_weights_count_together(self) -> None:
        """1 and a thousand times 2^-54: all but 2^-53 needs almost all of them, though each alone vanishes."""
        weights = [1.0] + [2.0**-54] * 1000
        assert 990 < nucleus(np.array(weights), 1.0 - 2.0**-53) < 1000

    def test_one_keeps_even_what_underflows(self) -> None:
        """A running sum that has reached the whole mass must not cut off the rest."""
        logits = np.array([0.0, -60.0, -5000.0])
        assert (0, 1, 2) == kept(logits, top_p=1.0)
        assert (0,) == kept(logits, top_p=float(np.nextafter(1.0, 0.0)))


class TestMinP:
    """A part of the largest probability."""

    def test_the_bound_itself_stays(self) -> None:
        """¼ is half of ½."""
        assert (1, 2) == kept(QUARTERS, min_p=0.5)
        assert (1,) == kept(QUARTERS, min_p=float(np.nextafter(0.5, 1.0)))
        assert (1, 2, 0, 3) == kept(QUARTERS, min_p=0.25)

    def test_one_keeps_all_that_tie_with_the_largest(self) -> None:
        """And nothing else."""
        assert (1, 3) == kept(np.array([-1.0, 4.0, 3.0, 4.0]), min_p=1.0)


class TestOrder:
    """Temperature, top-k, top-p, min-p; each sees what is left."""

    def test_top_p_is_a_part_of_what_top_k_has_kept(self) -> None:
        """Of ½ and ¼ the first has two thirds; of everything it has only half."""
        assert (1,) == kept(QUARTERS, top_k=2, top_p=0.6)
        assert (1, 2) == kept(QUARTERS, top_p=0.6)

    def test_the_temperature_comes_first(self) -> None:
        """At ½ the gaps double: instead of ½, ¼, ⅛, ⅛ it is 16, 4, 1 and 1 of 22, and the first has 0.727."""
        assert (1,) == kept(QUARTERS, temperature=0.5, top_p=0.7)
        assert (1, 2) == kept(QUARTERS, temperature=1.0, top_p=0.7)
        assert (1,) == kept(QUARTERS, temperature=0.5, min_p=0.5)

    def test_what_is_left_is_renormalized(self) -> None:
        """⅔ and ⅓."""
        distribution = distribution_of(QUARTERS, SamplingSettings(top_k=2), EXACT)
        assert [0.0, 2 / 3, 1 / 3, 0.0] == distribution.probabilities.tolist()

    @given(small_logits, st.data(), sixty_fourths, sixty_fourths)
    @settings(max_examples=20)
    def test_the_stages_keep_what_fractions_keep(
        self, logits: list[float], data: st.DataObject, top_p: float, min_p: float
    ) -> None:
        """Ties everywhere, masses met exactly, all settings on."""
        top_k = data.draw(st.integers(1, len(logits)))
        distribution = distribution_of(np.array(logits), SamplingSettings(1.0, top_k, top_p, min_p), EXACT)
        assert kept_by_fractions(logits, top_k, top_p, min_p) == list(distribution.kept)


class TestGreedy:
    """Temperature 0 is the largest logit, not a division."""

    @given(small_logits, sixty_fourths)
    @settings(max_examples=20)
    def test_all_of_it_is_on_the_greedy_token(self, logits: list[float], top_p: float) -> None:
        """Of equal ones on the first, whatever the other settings."""
        token = greedy_token(np.array(logits))
        distribution = distribution_of(np.array(logits), SamplingSettings(0.0, None, top_p, 0.25), STRICT)
        expected = [0.0] * len(logits)
        expected[token] = 1.0
        assert ((token,), expected, True) == (
            distribution.kept,
            distribution.probabilities.tolist(),
            distribution.greedy,
        )


class TestLaws:
    """What holds for all logits."""

    @given(real_logits, st.floats(0.05, 20.0))
    @settings(max_examples=20)
    def test_settings_that_keep_all_change_nothing(self, logits: list[float], temperature: float) -> None:
        """Top-k of the vocabulary, top-p 1, min-p 0: bit for bit the temperature alone, and the course's sampler."""
        values = np.array(logits)
        plain = distribution_of(values, SamplingSettings(temperature), STRICT)
        spelled = distribution_of(values, SamplingSettings(temperature, len(logits), 1.0, 0.0), STRICT)
        course = course_distribution(values, temperature, len(logits), STRICT)
        assert plain.probabilities.tobytes() == spelled.probabilities.tobytes() == course.probabilities.tobytes()
        assert plain.kept == spelled.kept == course.kept

    @given(real_logits, st.floats(0.05, 20.0), sixty_fourths, st.integers(0, 64))
    @settings(max_examples=20)
    def test_probabilities_add_up_on_the_support(
        self, logits: list[float], temperature: float, top_p: float, min_p: int
    ) -> None:
        """Only kept ids are positive, the first rank always is, and the sum is within six roundings of 1."""
        distribution = distribution_of(np.array(logits), SamplingSettings(temperature, None, top_p, min_p / 64), STRICT)
        assert set(distribution.support()) <= set(distribution.kept)
        assert int(np.argmax(logits)) == distribution.kept[0]
        assert distribution.probabilities[distribution.kept[0]] > 0.0
        assert abs(distribution.total - 1.0) <= 6 * 2.0**-53
        assert np.all(distribution.probabilities >= 0.0)

    @given(real_logits, st.floats(0.05, 20.0))
    @settings(max_examples=20)
    def test_a_larger_logit_is_no_less_likely(self, logits: list[float], temperature: float) -> None:
        """Up to the last place of the exponential."""
        probabilities = distribution_of(np.array(logits), SamplingSettings(temperature), STRICT).probabilities
        ranked = probabilities[np.argsort(-np.array(logits), kind="stable")]
        assert np.all(ranked[1:] <= ranked[:-1] * (1.0 + 4 * 2.0**-52))

    @given(st.data(), st.floats(0.05, 20.0), sixty_fourths, st.integers(0, 64))
    @settings(max_examples=20)
    def test_renaming_ids_renames_probabilities(
        self, data: st.DataObject, temperature: float, top_p: float, min_p: int
    ) -> None:
        """Bit for bit, where no logits tie: only ranks decide."""
        logits = data.draw(st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=7, unique_by=lambda value: value + 0.0))
        order = data.draw(st.permutations(range(len(logits))))
        settings = SamplingSettings(temperature, None, top_p, min_p / 64)
        before = distribution_of(np.array(logits), settings, STRICT)
        after = distribution_of(np.array(logits)[order], settings, STRICT)
        assert before.probabilities[order].tobytes() == after.probabilities.tobytes()
        assert list(before.kept) == [order[token] for token in after.kept]

    @given(small_logits, sixty_fourths, sixty_fourths)
    @settings(max_examples=20)
    def test_a_smaller_mass_keeps_a_part(self, logits: list[float], one: float, other: float) -> None:
        """Kept sets of top-p are nested, those of min-p and top-k as well."""
        values = np.array(logits)
        less, more = sorted((one, other))
        for inner, outer in (({"top_p": less}, {"top_p": more}), ({"min_p": more}, {"min_p": less})):
            smaller, larger = kept(values, **inner), kept(values, **outer)
            assert smaller == larger[: len(smaller)]

    def test_temperatures_at_the_ends(self) -> None:
        """The smallest one shares everything among the largest logits, the largest one among all."""
        logits = np.array([3.0, -7.0, 3.0, 2.9999999999999996])
        coldest = distribution_of(logits, SamplingSettings(5e-324), STRICT)
        hottest = distribution_of(logits, SamplingSettings(1.7976931348623157e308), STRICT)
        assert [0.5, 0.0, 0.5, 0.0] == coldest.probabilities.tolist()
        assert [0.25] * 4 == hottest.probabilities.tolist()

    @given(real_logits)
    @settings(max_examples=20)
    def test_the_arithmetics_agree(self, logits: list[float]) -> None:
        """Half the sum of the absolute differences is at rounding level."""
        laws = [
            distribution_of(np.array(logits), SamplingSettings(), which).probabilities for which in (STRICT, LIBM, FAST)
        ]
        assert max(0.5 * float(np.abs(laws[0] - law).sum()) for law in laws) <= 1e-15

    def test_probabilities_cannot_be_written(self) -> None:
        """They are data."""
        with pytest.raises(ValueError, match="read-only"):
            distribution_of(QUARTERS, SamplingSettings(), EXACT).probabilities[0] = 1.0


class TestSettings:
    """Refused where they are made."""

    @pytest.mark.parametrize(
        ("error", "settings"),
        [
            (SamplingError("invalid-temperature", value=-0.5), {"temperature": -0.5, "top_k": 0}),
            (SamplingError("invalid-temperature", value=float("nan")), {"temperature": float("nan")}),
            (SamplingError("invalid-temperature", value=float("inf")), {"temperature": float("inf")}),
            (SamplingError("invalid-top-k", top_k=0, vocabulary=2**32), {"top_k": 0, "top_p": 0.0}),
            (SamplingError("invalid-top-k", top_k=2**32 + 1, vocabulary=2**32), {"top_k": 2**32 + 1}),
            (SamplingError("invalid-top-p", value=0.0), {"top_p": 0.0, "min_p": 2.0}),
            (SamplingError("invalid-top-p", value=1.0000000000000002), {"top_p": 1.0000000000000002}),
            (SamplingError("invalid-top-p", value=float("nan")), {"top_p": float("nan")}),
            (SamplingError("invalid-min-p", value=-0.1), {"min_p": -0.1}),
            (SamplingError("invalid-min-p", value=1.5), {"min_p": 1.5}),
            (SamplingError("invalid-min-p", value=float("nan")), {"min_p": float("nan")}),
        ],
    )
    def test_what_no_sampler_can_mean(self, error: CaiReferenceError, settings: dict[str, float]) -> None:
        """Each with its value; the first wrong one is named."""
        with raises(error):
            SamplingSettings(**settings)  # type: ignore[arg-type]

    def test_top_k_is_held_against_the_vocabulary(self) -> None:
        """By the distribution, and by whoever asks before."""
        with raises(SamplingError("invalid-top-k", top_k=5, vocabulary=4)):
            distribution_of(QUARTERS, SamplingSettings(top_k=5), STRICT)
        with raises(SamplingError("invalid-top-k", top_k=5, vocabulary=4)):
            SamplingSettings(top_k=5).check_vocabulary(4)
        with raises(SamplingError("empty-logits")):
            distribution_of(np.zeros(0), SamplingSettings(top_k=5), STRICT)
        SamplingSettings(top_k=4).check_vocabulary(4)
        SamplingSettings().check_vocabulary(1)
