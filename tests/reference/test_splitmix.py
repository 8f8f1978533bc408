"""SplitMix64: published words, bounded draws with an artificial stream, the shuffle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.splitmix import INCREMENT, SplitMix64, SplitMixError, below, shuffle
from support_refusals import refuses


@dataclass
class Stream:
    """Yields given words, and counts them."""

    words: list[int]
    drawn: list[int] = field(default_factory=list)

    def next_u64(self) -> int:
        """Return the next word."""
        self.drawn.append(self.words[len(self.drawn)])
        return self.drawn[-1]


def test_seed_zero_gives_the_published_words() -> None:
    """The first four words of seed 0 are those of the authors' own program."""
    generator = SplitMix64(0)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert expected == [generator.next_u64() for _ in range(4)]


def test_seed_23_gives_the_published_words_and_units() -> None:
    """The seed is the raw state, and a unit double is the top 53 bits."""
    words, units = SplitMix64(23), SplitMix64(23)
    assert [0xE8D7DA001B0181D6, 0x993810E13B72E5F7, 0x04464E105D48FB2E] == [words.next_u64() for _ in range(3)]
    assert [0.9095436334855602, 0.5985117483027795, 0.016697768206800023] == [units.unit() for _ in range(3)]


@given(st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_the_state_moves_by_a_constant(seed: int, draws: int) -> None:
    """After n draws the state is seed + n times the increment, modulo 2^64."""
    generator = SplitMix64(seed)
    for _ in range(draws):
        assert 0 <= generator.next_u64() < 2**64
    assert (seed + draws * INCREMENT) % 2**64 == generator.state


@given(st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_many_units_at_once_are_those_of_single_draws(seed: int, count: int) -> None:
    """The same doubles, and the same state behind them."""
    many, single = SplitMix64(seed), SplitMix64(seed)
    assert [single.unit() for _ in range(count)] == many.next_units(count).tolist()
    assert single.state == many.state


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_has_64_bits(seed: int) -> None:
    """What does not fit into the state is refused, not wrapped."""
    with refuses(SplitMixError, "invalid-seed") as caught:
        SplitMix64(seed)
    assert seed == caught.value.fields["seed"]


def test_units_span_zero_to_just_below_one() -> None:
    """The smallest word gives 0 and the largest 1 - 2^-53."""

    class Extreme(SplitMix64):
        def __init__(self, word: int) -> None:
            super().__init__(0)
            self.word = word

        def next_u64(self) -> int:
            return self.word

    assert 0.0 == Extreme(0).unit()
    assert 1.0 - 2.0**-53 == Extreme(2**64 - 1).unit()


def test_words_under_the_threshold_are_drawn_again() -> None:
    """2^64 mod 3 is 1, so only the word 0 is rejected; 2^64 mod 10 is 6, so 0…5 are."""
    three, ten = Stream([0, 0, 1]), Stream([5, 3, 6])
    assert 1 == below(three, 3)
    assert 6 == below(ten, 10)
    assert [0, 0, 1] == three.drawn
    assert [5, 3, 6] == ten.drawn


def test_the_highest_words_are_accepted() -> None:
    """Rejection is at the low end only: the top word belongs to the last residue."""
    assert (2**64 - 1) % 10 == below(Stream([2**64 - 1]), 10)
    assert 2**63 - 1 == below(Stream([2**63 - 2, 2**63 - 1]), 2**63 + 1)


@pytest.mark.parametrize("bound", [1, 2, 2**32, 2**63, 2**64])
def test_powers_of_two_reject_nothing(bound: int) -> None:
    """A bound that divides 2^64 takes every word."""
    assert 0 == below(Stream([0]), bound)
    assert bound - 1 == below(Stream([2**64 - 1]), bound)


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_accepted_words_divide_evenly(bound: int, offset: int) -> None:
    """Any run of `bound` accepted words in a row hits every result once."""
    start = 2**64 % bound + offset
    assert dict.fromkeys(range(bound), 1) == Counter(
        below(Stream([word]), bound) for word in range(start, start + bound)
    )


@pytest.mark.parametrize("bound", [0, -1, 2**64 + 1])
def test_impossible_bounds_are_refused_before_a_draw(bound: int) -> None:
    """Nothing is drawn for a bound that has no results."""
    stream = Stream([])
    with refuses(SplitMixError, "invalid-bound") as caught:
        below(stream, bound)
    assert bound == caught.value.fields["bound"]
    assert [] == stream.drawn


def test_the_shuffle_runs_from_the_top() -> None:
    """Words 9, 4, 2 over four items swap 3 with 9 mod 4, 2 with 4 mod 3, 1 with 2 mod 2."""
    items = ["a", "b", "c", "d"]
    stream = Stream([9, 4, 2])
    shuffle(items, stream)
    # a b c d → (3↔1) a d c b → (2↔1) a c d b → (1↔0) c a d b
    assert ["c", "a", "d", "b"] == items
    assert 3 == len(stream.drawn)


@given(st.lists(st.integers()), st.integers(0, 2**64 - 1))
def test_a_shuffle_keeps_the_items(items: list[int], seed: int) -> None:
    """The result is a permutation, made with one draw an item but the first, and the same for the same seed."""
    once, twice = list(items), list(items)
    generator = SplitMix64(seed)
    shuffle(once, generator)
    shuffle(twice, SplitMix64(seed))
    assert sorted(items) == sorted(once)
    assert once == twice
    assert (seed + max(0, len(items) - 1) * INCREMENT) % 2**64 == generator.state
