"""The library's samplers: the draws that the library made, and each of its ways by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.errors import LegacyError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.sampling import LibraryGreedy, LibraryMinP, LibraryTopK, LibraryTopP, Sampler, descending
from support_legacy_tokenizer import TOKENIZER, needs_samples
from support_refusals import raises

ROW = np.array([0.1, 0.4, 0.2, 0.25, 0.05])
MAKERS: dict[str, Callable[[MersenneTwister], Sampler]] = {
    "topk3": lambda generator: LibraryTopK(3, generator),
    "topp0.9": lambda generator: LibraryTopP(0.9, generator),
    "topp0.3": lambda generator: LibraryTopP(0.3, generator),
    "topp0.5": lambda generator: LibraryTopP(0.5, generator),
    "topp1.0": lambda generator: LibraryTopP(1.0, generator),
    "minp0.7_row_b": lambda generator: LibraryMinP(0.7, generator),
}


def words_drawn(make: Callable[[MersenneTwister], Sampler], row: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """Return how many words of 32 bits one choice costs."""
    generator, fresh = MersenneTwister(4), MersenneTwister(4)
    make(generator).choose(row)
    following = generator.next_u32()
    return next(count for count in range(10) if fresh.next_u32() == following)


def plain_descending(pairs: list[tuple[int, float]]) -> list[int]:
    """Sort (token, score) as described, each half by itself, and return the tokens."""
    if len(pairs) < 2:
        return [token for token, _ in pairs]
    middle = pairs[(len(pairs) - 1) // 2][1]
    left, right = 0, len(pairs) - 1
    while left <= right:
        while pairs[left][1] > middle:
            left += 1
        while pairs[right][1] < middle:
            right -= 1
        if left <= right:
            pairs[left], pairs[right] = pairs[right], pairs[left]
            left, right = left + 1, right - 1
    between = [token for token, _ in pairs[right + 1 : left]]
    return plain_descending(pairs[: right + 1]) + between + plain_descending(pairs[left:])


@needs_samples
class TestSamples:
    """What the library chose."""

    @pytest.mark.parametrize("name", MAKERS)
    def test_successive_draws_are_those_of_the_library(self, name: str) -> None:
        """After seed 9."""
        samples = json.loads((TOKENIZER / "samplers.json").read_text("ascii"))
        row = np.array(samples["row_b" if "row_b" in name else "row_a"])
        sampler = MAKERS[name](MersenneTwister(9))
        expected = samples[f"{name}_seed9"]
        assert expected == [sampler.choose(row) for _ in expected]

    def test_greedy_is_that_of_the_library(self) -> None:
        """The first of two equal ones."""
        samples = json.loads((TOKENIZER / "samplers.json").read_text("ascii"))
        assert samples["greedy_row_b"] == LibraryGreedy().choose(np.array(samples["row_b"]))


class TestOrder:
    """The quicksort with the middle item as the pivot."""

    @pytest.mark.parametrize(
        ("scores", "order"),
        [
            ([0.1, 0.3, 0.2, 0.25, 0.3], [1, 4, 3, 2, 0]),
            ([1.0, 1.0], [1, 0]),
            ([1.0, 1.0, 1.0], [2, 1, 0]),
            ([0.0, 0.5, 0.5], [2, 1, 0]),
            ([0.5], [0]),
        ],
    )
    def test_equal_scores_change_places(self, scores: list[float], order: list[int]) -> None:
        """Worked by hand: the searches stop at equal scores, too, and what they stop at is swapped."""
        assert order == descending(scores)

    @settings(max_examples=40)
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
    def test_it_sorts(self, scores: list[float]) -> None:
        """Every token once, largest first."""
        order = descending(scores)
        assert list(range(len(scores))) == sorted(order)
        assert sorted(scores, reverse=True) == [scores[token] for token in order]

    def test_ties_fall_as_the_plain_quicksort_has_them(self) -> None:
        """All rows of six tokens and three scores; of an even number of tokens the pivot is the left middle one."""
        for scores in product((0.0, 0.5, 1.0), repeat=6):
            assert plain_descending(list(enumerate(scores))) == descending(scores)

    def test_thousands_of_tokens(self) -> None:
        """Rising, falling and equal scores."""
        for scores in (list(range(2_000)), list(range(2_000, 0, -1)), [1] * 2_000):
            order = descending([float(score) for score in scores])
            assert sorted(scores, reverse=True) == [scores[token] for token in order]


class TestUniformChoice:
    """Top-k and top-p look at probabilities only to decide who stays."""

    def test_top_k_is_uniform(self) -> None:
        """Of the probabilities 0.4, 0.25, 0.2, each about a third of the draws."""
        sampler = LibraryTopK(3, MersenneTwister(1))
        chosen = [sampler.choose(ROW) for _ in range(6_000)]
        assert all(1_850 < chosen.count(token) < 2_150 for token in (1, 3, 2))

    def test_top_p_leaves_out_the_token_that_crosses(self) -> None:
        """0.4 + 0.25 stay below 0.8, with 0.2 the sum is above: tokens 1 and 3, each about half."""
        sampler = LibraryTopP(0.8, MersenneTwister(1))
        chosen = [sampler.choose(ROW) for _ in range(4_000)]
        assert {1, 3} == set(chosen)
        assert 1_850 < chosen.count(1) < 2_150

    @pytest.mark.parametrize(("p", "words"), [(0.3, 0), (1.0, 0), (0.5, 1), (0.9, 1)])
    def test_top_p_draws_only_where_it_counts_tokens(self, p: float, words: int) -> None:
        """The largest alone exceeds 0.3, and nothing exceeds 1: no draw. Below 0.5 there is one token: a draw."""
        assert words == words_drawn(lambda generator: LibraryTopP(p, generator), ROW)

    def test_a_sum_that_reaches_p_does_not_cross_it(self) -> None:
        """0.5 + 0.25 = 0.75 exactly: the third in the library's order, which is token 1, crosses, and two stay."""
        sampler = LibraryTopP(0.75, MersenneTwister(1))
        assert {0, 2} == {sampler.choose(np.array([0.5, 0.25, 0.25])) for _ in range(50)}

    def test_sums_are_float32(self) -> None:
        """Three times 0.1 is 0.3 in float32 (0.1 and 0.3 rounded), but more than 0.3 in float64."""
        sampler = LibraryTopP(0.3, MersenneTwister(1))
        row = np.array([0.1] * 10)
        total = np.float32(0.0)
        crossing = next(place for place in range(10) if (total := total + np.float32(0.1)) > np.float32(0.3))
        assert crossing == len({sampler.choose(row) for _ in range(200)})


class TestMinP:
    """Drawn by probability."""

    def test_shares_are_those_of_probabilities(self) -> None:
        """0.4 and 0.25 are at least 0.55 of 0.4: shares 8/13 and 5/13."""
        sampler = LibraryMinP(0.55, MersenneTwister(1))
        chosen = [sampler.choose(ROW) for _ in range(6_500)]
        assert {1, 3} == set(chosen)
        assert 3_850 < chosen.count(1) < 4_150

    def test_one_leaves_the_largest(self) -> None:
        """Each of equal ones."""
        sampler = LibraryMinP(1.0, MersenneTwister(1))
        assert {1} == {sampler.choose(ROW) for _ in range(20)}
        assert {0, 2} == {sampler.choose(np.array([0.4, 0.2, 0.4])) for _ in range(50)}

    def test_one_draw_a_token(self) -> None:
        """Also where one token is left."""
        assert 1 == words_drawn(lambda generator: LibraryMinP(1.0, generator), ROW)

    @pytest.mark.parametrize(("unit", "token"), [(0.0, 1), (0.6, 1), (0.62, 3), (1.0 - 2.0**-32, 3)])
    def test_the_draw_falls_between_sums(self, unit: float, token: int) -> None:
        """8/13 ≈ 0.615 is the border; the largest draw of 32 bits, which rounds to the sum itself, is the last's."""

        class Fixed(MersenneTwister):
            def unit(self) -> float:
                return unit

        assert token == LibraryMinP(0.55, Fixed(0)).choose(ROW)

    def test_a_border_belongs_to_the_later_token(self) -> None:
        """0.5 of [0.5, 0.5], whose order is 1, 0."""

        class Half(MersenneTwister):
            def unit(self) -> float:
                return 0.5

        assert 0 == LibraryMinP(1.0, Half(0)).choose(np.array([0.5, 0.5]))


class TestRefusals:
    """No token, and no draw."""

    @pytest.mark.parametrize("k", [0, -1])
    def test_top_k_below_one(self, k: int) -> None:
        """Nothing would be left."""
        with raises(LegacyError("top-k-too-small", k=k)):
            LibraryTopK(k, MersenneTwister(0))

    @pytest.mark.parametrize("p", [0.0, -0.1, 1.1, float("nan"), float("inf")])
    def test_bounds_outside(self, p: float) -> None:
        """Of top-p and min-p."""
        with raises(LegacyError("top-p-out-of-range", p=p)):
            LibraryTopP(p, MersenneTwister(0))
        with raises(LegacyError("min-p-out-of-range", q=p)):
            LibraryMinP(p, MersenneTwister(0))

    def test_top_k_beyond_the_row(self) -> None:
        """Where the library would read other memory."""
        generator = MersenneTwister(0)
        with raises(LegacyError("top-k-beyond-row", k=6, size=5)):
            LibraryTopK(6, generator).choose(ROW)
        assert MersenneTwister(0).next_u32() == generator.next_u32()

    @pytest.mark.parametrize("name", ["greedy", *MAKERS])
    def test_rows_that_are_none(self, name: str) -> None:
        """By every sampler, before it draws."""
        generator = MersenneTwister(0)
        sampler = LibraryGreedy() if name == "greedy" else MAKERS[name](generator)
        nan = float("nan")
        with raises(LegacyError("empty-sampling-row")):
            sampler.choose(np.array([]))
        with raises(LegacyError("sampling-row-shape", shape=(1, 5))):
            sampler.choose(ROW[np.newaxis])
        for value in (nan, -0.1, 1.5, float("inf")):
            with raises(LegacyError("not-a-probability", token_id=2, value=value)):
                sampler.choose(np.array([0.1, 0.2, value, 0.3, nan]))
        for tiny in (0.0, 1e-60):
            with raises(LegacyError("nothing-probable", size=5)):
                sampler.choose(np.array([tiny] * 5))
        assert MersenneTwister(0).next_u32() == generator.next_u32()
