"""The search: on toy cases whose smallest ones are known."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.run.shrink.models import smaller
from cai_conformance.run.shrink.search import Shrunk, shrink

Pair = tuple[int, int]
MANY = 10_000


def first_smaller(pair: Pair) -> Iterator[Pair]:
    """Make the first number smaller."""
    return ((value, pair[1]) for value in smaller(pair[0], 0))


def second_smaller(pair: Pair) -> Iterator[Pair]:
    """Make the second number smaller."""
    return ((pair[0], value) for value in smaller(pair[1], 0))


def shorter(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Leave one out."""
    return (items[:place] + items[place + 1 :] for place in range(len(items)))


def lower(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Make one smaller."""
    for place, item in enumerate(items):
        for value in smaller(item, 0):
            yield (*items[:place], value, *items[place + 1 :])


class TestShrink:
    """Greedy, and down to where no single step helps."""

    @given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 60), st.integers(0, 60))
    def test_independent_bounds_are_met_exactly(self, first: int, second: int, by: int, more: int) -> None:
        """The one smallest case is the corner."""
        start = (first + by, second + more)
        found = shrink(
            start, (first_smaller, second_smaller), lambda pair: pair[0] >= first and pair[1] >= second, MANY
        )
        assert (first, second) == found.case
        assert found.finished

    @given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 200))
    def test_what_is_found_fails_and_no_step_from_it_does(self, least: int, first: int, second: int) -> None:
        """Where the two numbers are worth something together, there are many smallest cases."""
        start = (first + least, second)

        def fails(pair: Pair) -> bool:
            return pair[0] + 2 * pair[1] >= least and (pair[0] + pair[1]) % 7 != 3

        if not fails(start):
            return
        found = shrink(start, (first_smaller, second_smaller), fails, MANY).case
        assert fails(found)
        assert not any(map(fails, [*first_smaller(found), *second_smaller(found)]))

    @given(st.lists(st.integers(0, 30), min_size=3, max_size=12))
    def test_a_subsequence_is_what_is_left_of_a_sequence(self, items: list[int]) -> None:
        """Of a sequence that fails as long as two numbers stand in it in this order."""
        before, behind = items[0], items[-1]

        def fails(left: tuple[int, ...]) -> bool:
            return before in left and behind in left[left.index(before) + 1 :]

        assert (before, behind) == shrink(tuple(items), (shorter,), fails, MANY).case

    @given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 200))
    def test_the_same_search_finds_the_same(self, items: list[int], most: int) -> None:
        """Case and number of trials, also where these run out."""
        runs = [shrink(tuple(items), (shorter, lower), lambda left: sum(left) % 3 == 1, most) for _ in range(2)]
        assert runs[0] == runs[1]

    def test_no_case_is_tried_twice(self) -> None:
        """Not even the one at the beginning."""
        tried: list[Pair] = [(40, 40)]

        def fails(pair: Pair) -> bool:
            tried.append(pair)
            return pair[0] + pair[1] >= 13

        found = shrink((40, 40), (first_smaller, second_smaller), fails, MANY)
        assert len(tried) == len(set(tried))
        assert found.trials == len(tried) - 1

    def test_trials_are_bounded(self) -> None:
        """What was found by then is the result, and that it may not be the smallest is said."""
        found = shrink((1000, 0), (first_smaller,), lambda pair: pair[0] >= 999, 2)
        assert Shrunk((1000, 0), 2, finished=False) == found
        assert Shrunk((999, 0), 3, finished=False) == shrink((1000, 0), (first_smaller,), lambda p: p[0] >= 999, 3)

    def test_a_case_that_cannot_be_made_smaller_stays(self) -> None:
        """No trial is needed to know that."""
        assert Shrunk((0, 0), 0, finished=True) == shrink((0, 0), (first_smaller,), lambda _: True, MANY)


class TestSmaller:
    """Smaller numbers."""

    def test_the_smallest_comes_first(self) -> None:
        """Then halfway, then one step."""
        assert [0, 5, 10] == list(smaller(11, 0))
        assert [2, 4, 6] == list(smaller(8, 2, 2))
        assert [2] == list(smaller(4, 2, 2))
        assert [1, 2] == list(smaller(3, 1))

    @given(st.integers(-5, 300), st.integers(0, 50))
    def test_none_is_below_the_least_or_as_large_as_before(self, value: int, least: int) -> None:
        """And none comes twice."""
        found = list(smaller(value, least))
        assert len(found) == len(set(found))
        assert all(least <= number < value for number in found)
        assert bool(found) is (value > least)
