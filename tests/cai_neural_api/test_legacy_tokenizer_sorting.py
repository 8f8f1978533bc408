"""The random-pivot quicksort, and the shortcut to its first item: the same draws, the same outcome."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer.ranking import first_by_count, random_pivot_sort
from support_legacy_tokenizer import plain_sort

SEEDS_OF_32_BITS = st.integers(0, 2**32 - 1)


def sorted_plainly(counts: list[int], seed: int) -> tuple[list[tuple[int, int]], int]:
    """Return (count, index) sorted by count, descending, as the description has it, and the next draw."""
    generator = MersenneTwister(seed)
    items = [(count, index) for index, count in enumerate(counts)]
    plain_sort(items, lambda one, other: other[0] - one[0], generator)
    return items, generator.next_u32()


def first_agrees(counts: list[int], seed: int) -> None:
    """Require the first item and the next draw of the description."""
    items, following = sorted_plainly(counts, seed)
    generator = MersenneTwister(seed)
    assert items[0][1] == first_by_count(np.array(counts, np.int64), generator)
    assert following == generator.next_u32()


class TestRandomPivotSort:
    """Unstable, and as long as chance has it."""

    @settings(max_examples=40)
    @given(st.lists(st.integers(0, 5), max_size=40), SEEDS_OF_32_BITS)
    def test_items_and_draws_are_those_of_the_description(self, counts: list[int], seed: int) -> None:
        """Equal items end up where they would."""
        expected, following = sorted_plainly(counts, seed)
        found, generator = [(count, index) for index, count in enumerate(counts)], MersenneTwister(seed)
        random_pivot_sort(found, lambda one, other: one[0] < other[0], generator)
        assert (expected, following) == (found, generator.next_u32())

    @settings(max_examples=40)
    @given(st.lists(st.integers(), max_size=40), SEEDS_OF_32_BITS)
    def test_what_comes_out_is_sorted(self, items: list[int], seed: int) -> None:
        """Ascending under "greater is out of order"."""
        found = list(items)
        random_pivot_sort(found, operator.gt, MersenneTwister(seed))
        assert sorted(items) == found

    def test_equal_items_change_places(self) -> None:
        """By hand: three equal items, pivot 0 or 1 goes to the end; then two are left, which stay."""
        generator = MersenneTwister(9)
        pivot = MersenneTwister(9).below_64(2)
        items = [0, 1, 2]
        random_pivot_sort(items, lambda one, other: False, generator)
        assert {0: [2, 1, 0], 1: [0, 2, 1]}[pivot] == items

    @pytest.mark.parametrize(("length", "words"), [(0, 0), (1, 0), (2, 0), (3, 2), (10, 16)])
    def test_equal_items_cost_one_draw_a_slot(self, length: int, words: int) -> None:
        """Each part but the last two slots draws two words of 32 bits, and is one slot shorter than the one before."""
        generator, fresh = MersenneTwister(3), MersenneTwister(3)
        random_pivot_sort([0] * length, operator.gt, generator)
        drawn = [fresh.next_u32() for _ in range(words + 1)]
        assert drawn[-1] == generator.next_u32()

    def test_more_than_a_thousand_equal_items_need_no_stack(self) -> None:
        """Which the library's own recursion does."""
        random_pivot_sort([0] * 1_500, operator.gt, MersenneTwister(0))


class TestFirstByCount:
    """The shortcut."""

    @settings(max_examples=40)
    @given(st.lists(st.integers(1, 4), min_size=1, max_size=30), SEEDS_OF_32_BITS)
    def test_short_lists(self, counts: list[int], seed: int) -> None:
        """Ties everywhere."""
        first_agrees(counts, seed)

    @pytest.mark.parametrize("seed", range(24))
    def test_long_lists(self, seed: int) -> None:
        """Of many ones and ever fewer large counts, as a text has them, or of all counts alike."""
        chance = random.Random(seed)
        kinds = chance.choice([2, 5, 33])
        weights = [1.0 / (kind + 1) ** (seed % 3) for kind in range(kinds)]
        first_agrees(chance.choices(range(1, kinds + 1), weights, k=chance.randint(49, 300)), seed)

    @pytest.mark.parametrize("length", [1, 2, 3, 47, 48, 49, 50, 200])
    def test_equal_counts(self, length: int) -> None:
        """Only the draws decide."""
        first_agrees([7] * length, length)
