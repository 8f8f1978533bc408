"""Fitting a vocabulary: the library's own vocabularies, and the plain description of how they come about."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.errors import LegacyTokenizerError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer import fit
from cai_neural_api.tokenizer.fitting import words_of
from support_legacy_tokenizer import SEEDS, STORIES, needs_samples, needs_stories, plain_fit, tiny_text, tiny_vocabulary
from support_refusals import raises


def agrees_with_the_description(text: bytes, size: int, seed: int) -> int:
    """Require equal vocabularies and equal states of the generators; return how many tokens were made."""
    expected, found = MersenneTwister(seed), MersenneTwister(seed)
    entries = plain_fit(text, size, expected)
    assert entries == list(fit(text, size, found).entries)
    assert [expected.next_u32() for _ in range(3)] == [found.next_u32() for _ in range(3)]
    return len(entries)


class TestSamples:
    """What the library fitted."""

    @needs_samples
    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_vocabulary_of_the_small_corpus(self, seed: int) -> None:
        """The two seeds break ties differently."""
        assert tiny_vocabulary(seed) == fit(tiny_text(), 140, MersenneTwister(seed)).format()

    @needs_stories
    @pytest.mark.exhaustive
    def test_the_vocabulary_of_the_stories(self) -> None:
        """2,063 tokens of 3,000 ids asked for: no pairs were left."""
        vocabulary = fit((STORIES / "stories.txt").read_bytes(), 3_000, MersenneTwister(0))
        assert 2_063 == len(vocabulary.entries)
        assert (STORIES / "vocabulary.txt").read_bytes() == vocabulary.format()

    @needs_stories
    def test_the_first_rounds_on_the_stories(self) -> None:
        """As the description has them."""
        assert 12 == agrees_with_the_description((STORIES / "stories.txt").read_bytes(), 140, 5)


class TestDescription:
    """The same as scanning from the start, sorting everything and merging everywhere."""

    @settings(max_examples=50)
    @given(st.text("abc'A- \n\r", max_size=80), st.integers(129, 150), st.integers(0, 2**32 - 1))
    def test_short_texts(self, text: str, size: int, seed: int) -> None:
        """Ties everywhere."""
        agrees_with_the_description(text.encode(), size, seed)

    @pytest.mark.parametrize("seed", range(8))
    def test_long_texts(self, seed: int) -> None:
        """Of frequent words, so that scans stop early."""
        chance = random.Random(seed)
        letters = "ab'" if seed % 2 else "abcdefg'"
        stock = ["".join(chance.choices(letters, k=chance.randint(1, 8))) for _ in range(chance.choice([5, 30, 200]))]
        text = " ".join(chance.choices(stock, k=chance.choice([150, 600])))
        assert agrees_with_the_description(text.encode(), 128 + 45, seed) > 2

    @pytest.mark.parametrize(("stock", "length", "seed"), [(3, 100, 19), (5, 100, 6), (8, 400, 15), (8, 400, 22)])
    def test_merges_that_make_a_pair_frequent_before_the_last_stop(self, stock: int, length: int, seed: int) -> None:
        """So that the next scan stops earlier than the last: repeated letters come to one symbol in two ways.

        Scans that only ever go on give another vocabulary, or draw something else, on these texts.
        """
        chance = random.Random(seed)
        words = ["".join(chance.choices("ab'", k=chance.randint(8, 20))) for _ in range(stock)]
        agrees_with_the_description(" ".join(chance.choices(words, k=length)).encode(), 168, seed)

    def test_a_scan_stops_at_33(self) -> None:
        """32 times "ab" and then 33 "cd": "cd" wins, however often "ab" follows."""
        text = b"ab " * 32 + b"cd " * 33 + b"ab " * 500
        assert (b"cd",) == fit(text, 129, MersenneTwister(0)).entries

    def test_one_pair_is_not_merged(self) -> None:
        """However frequent, and whatever follows the stop; the library looks at two at least."""
        assert () == fit(b"ab ab ab", 200, MersenneTwister(0)).entries
        assert () == fit(b"ab " * 33 + b"cd " * 20, 200, MersenneTwister(0)).entries
        assert (b"ab",) == fit(b"ab ab ab bc", 129, MersenneTwister(0)).entries

    def test_a_merge_reaches_the_tail_of_a_longer_symbol(self) -> None:
        """ab·d·e becomes abd·e when b·d merges, so that "abde" comes about, but never "abd"."""
        text = b"ab " * 5 + b"bd " * 4 + b"abde " * 3 + b"xy"
        assert (b"ab", b"abde", b"bd") == fit(text, 131, MersenneTwister(0)).entries

    def test_a_merge_reaches_the_head_of_a_longer_symbol(self) -> None:
        """c·ab·e becomes cab·e when c·a merges."""
        text = b"ab " * 6 + b"ca " * 4 + b"cabe " * 3 + b"xy"
        assert (b"ab", b"ca", b"cabe") == fit(text, 131, MersenneTwister(0)).entries

    def test_a_symbol_that_begins_with_an_apostrophe_is_counted_no_more(self) -> None:
        """After "'t" and "su", the word "'tsu" stays two symbols."""
        text = b"'tsu " * 5 + b"'t 't zw" + b" xy" * 6
        assert (b"'t", b"su", b"xy") == fit(text, 200, MersenneTwister(0)).entries

    def test_equal_strings_count_once(self) -> None:
        """Fewer tokens than merges."""
        assert agrees_with_the_description(b"abab baba aba bab", 150, 3) < 22

    def test_what_is_not_counted(self) -> None:
        """Capitals, digits, other bytes, and what crosses a space."""
        assert () == fit("AB AB 12 12 -- éé a b".encode(), 200, MersenneTwister(0)).entries

    def test_every_round_is_told(self) -> None:
        """For whoever shows progress."""
        rounds: list[None] = []
        entries = fit(b"banana band bandana", 133, MersenneTwister(1), lambda: rounds.append(None)).entries
        assert 5 == len(rounds) >= len(entries)


class TestWords:
    """What a text is cut into."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"", [b""]),
            (b"an ant\nran\n", [b"an", b"ant\nran"]),
            (b"an ant\r\nran\r", [b"an", b"ant\nran"]),
            (b"an  ant \n", [b"an", b"", b"ant", b""]),
            (b"\tan\x01 \x7fant", [b"an", b"\x7fant"]),
        ],
    )
    def test_only_spaces_split_words(self, text: bytes, words: list[bytes]) -> None:
        """Line ends stay within words, as LF; what is at the ends of a word goes."""
        assert words == words_of(text)


class TestRefusals:
    """A fit that cannot be: nothing is drawn."""

    @pytest.mark.parametrize("size", [128, 0, -5])
    def test_a_size_without_room(self, size: int) -> None:
        """The 128 ids of single bytes are always there."""
        with raises(LegacyTokenizerError("vocabulary-size-too-small", size=size, single=128)):
            fit(b"an ant", size, MersenneTwister(0))

    @pytest.mark.parametrize("byte", [0, 29, 30])
    def test_bytes_that_the_library_uses_itself(self, byte: int) -> None:
        """With the line in which they stand."""
        generator = MersenneTwister(0)
        with raises(LegacyTokenizerError("reserved-byte", line=2, byte=byte)):
            fit(b"an\r\nant" + bytes([byte]), 140, generator)
        assert MersenneTwister(0).next_u32() == generator.next_u32()
