"""Samplers as the names usually mean them: distributions by hand, and laws by going through the draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.errors import LegacyError
from cai_neural_api.sampling import StandardSampler
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.decoding.sampling import SamplingSettings, distribution_of
from cai_reference.splitmix import SplitMix64
from support_refusals import raises

ROW = np.array([0.1, 0.4, 0.2, 0.25, 0.05])


@dataclass
class Given:
    """Draws decided by the test."""

    draws: list[float]

    def unit(self) -> float:
        """Return the next."""
        return self.draws.pop(0)


def distribution(row: np.ndarray[tuple[int], np.dtype[np.float64]] = ROW, **filters: float) -> list[float]:
    """Return what the filters leave."""
    sampler = StandardSampler(Given([]), **filters)  # type: ignore[arg-type]  # k is whole
    return [float(share) for share in sampler.distribution(row)]


class TestFilters:
    """Worked by hand; shares are renormalised."""

    def test_no_filter_leaves_everything(self) -> None:
        """As it is."""
        assert ROW == pytest.approx(distribution(), abs=1e-15)

    def test_temperature_two_takes_square_roots(self) -> None:
        """1/16, 9/16, 6/16 (as parts) become 1, 3, √6."""
        roots = np.sqrt([1.0, 9.0, 6.0])
        assert distribution(np.array([1, 9, 6]) / 16, temperature=2.0) == pytest.approx(roots / roots.sum())

    def test_temperature_a_half_squares(self) -> None:
        """0.2 and 0.6 and 0.2: 1, 9, 1 parts of 11."""
        assert distribution(np.array([0.2, 0.6, 0.2]), temperature=0.5) == pytest.approx([1 / 11, 9 / 11, 1 / 11])

    def test_temperature_near_zero_is_greedy(self) -> None:
        """However near; a probability of zero stays zero."""
        for temperature in (1e-4, 1e-300, 5e-324):
            assert [0.0, 1.0, 0.0] == distribution(np.array([0.4, 0.6, 0.0]), temperature=temperature)

    def test_temperature_without_end_is_uniform(self) -> None:
        """Over what is possible at all."""
        assert distribution(np.array([0.9, 0.1, 0.0]), temperature=1e300) == pytest.approx([0.5, 0.5, 0.0])

    def test_top_k_keeps_the_largest_by_probability(self) -> None:
        """0.4 and 0.25: 8 and 5 parts of 13."""
        assert distribution(top_k=2) == pytest.approx([0, 8 / 13, 0, 5 / 13, 0])

    def test_top_k_beyond_the_row_keeps_everything(self) -> None:
        """There is nothing else."""
        assert distribution(top_k=50) == pytest.approx(ROW.tolist())

    def test_top_p_keeps_the_token_that_crosses(self) -> None:
        """0.4 + 0.25 = 0.65 is below 0.7, so that 0.2 stays, too: 8, 5, 4 parts of 17."""
        assert distribution(top_p=0.7) == pytest.approx([0, 8 / 17, 4 / 17, 5 / 17, 0])

    def test_top_p_that_is_reached_needs_no_more(self) -> None:
        """0.5 + 0.25 = 0.75 exactly; of equal ones the lower id stays."""
        assert distribution(np.array([0.25, 0.5, 0.25]), top_p=0.75) == pytest.approx([1 / 3, 2 / 3, 0])

    def test_top_p_of_one_keeps_everything(self) -> None:
        """Unlike the library's."""
        assert distribution(top_p=1.0) == pytest.approx(ROW.tolist())

    def test_a_small_top_p_keeps_the_largest(self) -> None:
        """At least one token stays."""
        assert [0, 1, 0, 0, 0] == distribution(top_p=1e-9)

    def test_min_p_keeps_a_share_of_the_largest(self) -> None:
        """At least half of 0.4: 0.4, 0.25 and 0.2, the border included."""
        assert distribution(min_p=0.5) == pytest.approx([0, 8 / 17, 4 / 17, 5 / 17, 0])
        assert [0, 1, 0, 0, 0] == distribution(min_p=1.0)

    def test_filters_follow_one_another(self) -> None:
        """Of the three largest, 8, 4, 5 parts of 17, top-p 0.75 keeps 8 and 5, as 13/17 ≈ 0.765; min-p 0.7 leaves 8.

        Without top-k, 0.65 would be below 0.75, and 0.2 would stay as well.
        """
        assert distribution(top_k=3, top_p=0.75) == pytest.approx([0, 8 / 13, 0, 5 / 13, 0])
        assert [0, 1, 0, 0, 0] == distribution(top_k=3, top_p=0.75, min_p=0.7)

    @pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST])
    def test_rows_need_not_add_up_to_one(self, arithmetic: object) -> None:
        """They are renormalised."""
        sampler = StandardSampler(Given([]), arithmetic=arithmetic)  # type: ignore[arg-type]  # all three are
        assert sampler.distribution(ROW / 2).tolist() == pytest.approx(ROW.tolist())

    @pytest.mark.parametrize(
        "filters",
        [
            {},
            {"temperature": 0.7},
            {"top_k": 5},
            {"top_p": 0.6},
            {"min_p": 0.2},
            {"temperature": 1.3, "top_k": 9, "top_p": 0.8, "min_p": 0.05},
        ],
    )
    def test_logits_are_filtered_alike(self, filters: dict[str, float]) -> None:
        """Decoders filter logits, without ever forming the row that is filtered here."""
        for seed in range(20):
            logits = np.random.default_rng(seed).normal(0.0, 2.0, 30)
            row = np.exp(logits - logits.max())
            expected = distribution_of(logits, SamplingSettings(**filters), STRICT)  # type: ignore[arg-type]  # k is whole
            assert expected.probabilities.tolist() == pytest.approx(distribution(row / row.sum(), **filters), abs=1e-12)


class TestDraws:
    """A draw u chooses the first token at which the summed distribution exceeds u."""

    @pytest.mark.parametrize(
        ("draw", "token"), [(0.0, 0), (0.249, 0), (0.25, 2), (0.749, 2), (0.75, 3), (1.0 - 2.0**-53, 3)]
    )
    def test_borders_belong_to_the_later_token(self, draw: float, token: int) -> None:
        """Never to one of probability zero: 0.25, 0, 0.5, 0.25, 0."""
        assert token == StandardSampler(Given([draw])).choose(np.array([0.25, 0.0, 0.5, 0.25, 0.0]))

    @settings(max_examples=25)
    @given(
        st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda row: max(row) > 1e-3),
        st.sampled_from([{}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.3}, {"temperature": 0.5, "top_k": 4}]),
    )
    def test_going_through_all_draws_gives_the_distribution(self, row: list[float], filters: dict[str, float]) -> None:
        """128 draws at equal distances: each token gets its share to within one draw at both ends."""
        draws = [(place + 0.5) / 128 for place in range(128)]
        sampler = StandardSampler(Given(draws.copy()), **filters)  # type: ignore[arg-type]  # k is whole
        shares = sampler.distribution(np.array(row))
        chosen = [sampler.choose(np.array(row)) for _ in draws]
        assert chosen == sorted(chosen)
        assert all(abs(chosen.count(token) - 128 * share) <= 1.0 + 1e-9 for token, share in enumerate(shares.tolist()))

    def test_draws_are_those_of_split_mix(self) -> None:
        """One unit a token."""
        generator, fresh = SplitMix64(3), SplitMix64(3)
        sampler = StandardSampler(generator)
        sums = [0.1, 0.5, 0.7, 0.95, 1.0]
        expected = [next(token for token, total in enumerate(sums) if total > draw) for draw in _units(fresh, 50)]
        assert expected == [sampler.choose(ROW) for _ in range(50)]
        assert fresh.state == generator.state


def _units(generator: SplitMix64, count: int) -> list[float]:
    return [generator.unit() for _ in range(count)]


class TestRefusals:
    """Settings that leave nothing, rows that are none."""

    @pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
    def test_temperatures(self, temperature: float) -> None:
        """Finite and above zero."""
        with raises(LegacyError("temperature-out-of-range", temperature=temperature)):
            StandardSampler(Given([]), temperature=temperature)

    def test_filters(self) -> None:
        """K from 1 on, p and q in (0, 1]."""
        with raises(LegacyError("top-k-too-small", k=0)):
            StandardSampler(Given([]), top_k=0)
        for share in (0.0, -0.5, 1.5, float("nan")):
            with raises(LegacyError("top-p-out-of-range", p=share)):
                StandardSampler(Given([]), top_p=share)
            with raises(LegacyError("min-p-out-of-range", q=share)):
                StandardSampler(Given([]), min_p=share)

    def test_rows(self) -> None:
        """Before anything is drawn."""
        sampler = StandardSampler(Given([]))
        with raises(LegacyError("empty-sampling-row")):
            sampler.choose(np.array([]))
        with raises(LegacyError("sampling-row-shape", shape=(5, 1))):
            sampler.choose(ROW[:, np.newaxis])
        with raises(LegacyError("not-a-probability", token_id=1, value=float("nan"))):
            sampler.choose(np.array([0.5, float("nan"), -1.0]))
        with raises(LegacyError("nothing-probable", size=3)):
            sampler.choose(np.zeros(3))
