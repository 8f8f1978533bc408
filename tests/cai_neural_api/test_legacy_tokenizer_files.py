"""Vocabulary files and CSV rows: what is read, what is written, and what is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.errors import LegacyTokenizerError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer import Rows, Vocabulary, format_rows, parse_rows, usable_rows
from support_legacy_tokenizer import STORIES, needs_stories, plain_sort
from support_refusals import raises

DAMAGED: list[tuple[bytes, LegacyTokenizerError]] = [
    (b"an\nb\0n\n", LegacyTokenizerError("nul-byte", line=2)),
    (b"an\nban\r\n", LegacyTokenizerError("carriage-return", line=2)),
    (b"an\r\nban\r\n", LegacyTokenizerError("carriage-return", line=1)),
    (b"\xef\xbb\xbfan\nban\n", LegacyTokenizerError("byte-order-mark", line=1)),
    (b"an\nba", LegacyTokenizerError("unfinished-line", line=2)),
    (b"an\n\nban\n", LegacyTokenizerError("empty-entry", line=2)),
    (b"\n", LegacyTokenizerError("empty-entry", line=1)),
    (b"an\nban\nthe\nBan\n", LegacyTokenizerError("repeated-entry", line=4, first=2)),
]

BROKEN_ROWS: list[tuple[bytes, LegacyTokenizerError]] = [
    (b"1,2\n3,x\n", LegacyTokenizerError("not-an-id", line=2, field=2, text="x")),
    (b"1,2\n3,\n", LegacyTokenizerError("not-an-id", line=2, field=2, text="")),
    (b"1, 2\n", LegacyTokenizerError("not-an-id", line=1, field=2, text=" 2")),
    (b"+1\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="+1")),
    (b"007\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="007")),
    (b"-0\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="-0")),
    (b"1.5\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="1.5")),
    (b"\xff\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="\\xff")),
    (b"a" * 50 + b"\n", LegacyTokenizerError("not-an-id", line=1, field=1, text="a" * 40 + "…")),
    (b"\n\n5,-1\n", LegacyTokenizerError("negative-id", line=3, field=2, token_id=-1)),
    (
        b"2147483647\n2147483648\n",
        LegacyTokenizerError("id-too-large", line=2, field=1, text="2147483648", largest=2147483647),
    ),
    (
        b"9" * 5_000 + b"\n",
        LegacyTokenizerError("id-too-large", line=1, field=1, text="9" * 40 + "…", largest=2147483647),
    ),
    (b"1\n2\r\n", LegacyTokenizerError("carriage-return", line=2)),
    (b"1\n\0\n", LegacyTokenizerError("nul-byte", line=2)),
    (b"1\n23", LegacyTokenizerError("unfinished-line", line=2)),
    (b"\xef\xbb\xbf1\n", LegacyTokenizerError("byte-order-mark", line=1)),
]

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple), max_size=5).map(tuple)


class TestVocabularyFiles:
    """One token a line."""

    @pytest.mark.parametrize("data", [b"", b"an\n", b"the\nban\nan\n", b"a\nxyz\n\xff\xfe\nto be\n"])
    def test_a_file_comes_back(self, data: bytes) -> None:
        """Any order, single bytes, spaces, any bytes."""
        assert data == Vocabulary.parse(data).format()

    def test_line_numbers_are_ids(self) -> None:
        """From 128 on."""
        vocabulary = Vocabulary.parse(b"the\nan\n")
        assert ((b"the", b"an"), 130) == (vocabulary.entries, vocabulary.size)
        assert {b"the": 128, b"an": 129} == vocabulary.ids_of_parts
        assert {b"an": 128, b"the": 129} == vocabulary.ids_of_words

    @pytest.mark.parametrize(("data", "error"), DAMAGED)
    def test_a_damaged_line_is_told(self, data: bytes, error: LegacyTokenizerError) -> None:
        """Its number, from 1."""
        with raises(error):
            Vocabulary.parse(data)

    def test_a_model_limits_the_entries(self) -> None:
        """130 ids are 128 bytes and two entries."""
        assert 130 == Vocabulary.parse(b"the\nan\n", 130).size
        with raises(LegacyTokenizerError("too-many-entries", line=3, token_id=130, size=130)):
            Vocabulary.parse(b"the\nan\nban\nand\n", 130)


class TestLoading:
    """The library sorts a vocabulary twice while it loads it."""

    @pytest.mark.parametrize("entries", [0, 1, 2, 3, 10, 300])
    def test_loading_draws_what_two_sorts_draw(self, entries: int) -> None:
        """Sorted entries and shuffled ones."""
        names = sorted(b"%03d" % number for number in range(entries))
        for order in (names, names[::-1], sorted(names, key=lambda name: name[::-1])):
            expected, found = MersenneTwister(7), MersenneTwister(7)
            listed = list(order)
            for _ in range(2):
                plain_sort(listed, lambda one, other: (one > other) - (one < other), expected)
            Vocabulary(tuple(order)).replay_loading(found)
            assert [expected.next_u32() for _ in range(3)] == [found.next_u32() for _ in range(3)]

    def test_it_draws_at_all(self) -> None:
        """Three entries cost at least one draw a sort; two cost none."""

        def words_drawn(data: bytes) -> int:
            generator, fresh = MersenneTwister(7), MersenneTwister(7)
            Vocabulary.parse(data).replay_loading(generator)
            following = generator.next_u32()
            return next(count for count in range(100) if fresh.next_u32() == following)

        assert 0 == words_drawn(b"an\nban\n")
        assert 4 == words_drawn(b"an\nban\nthe\n")


class TestRows:
    """Comma-separated ids."""

    def test_a_line_is_a_row(self) -> None:
        """An empty one, too."""
        assert ((72, 128), (), (5,)) == parse_rows(b"72,128\n\n5\n")
        assert () == parse_rows(b"")

    @settings(max_examples=30)
    @given(ROWS)
    def test_rows_come_back(self, rows: Rows) -> None:
        """Through the file."""
        assert rows == parse_rows(format_rows(rows))

    @needs_stories
    def test_the_rows_of_the_library_come_back(self) -> None:
        """Byte for byte."""
        data = (STORIES / "rows.csv").read_bytes()
        assert data == format_rows(parse_rows(data))

    @pytest.mark.parametrize(("data", "error"), BROKEN_ROWS, ids=range(len(BROKEN_ROWS)))
    def test_a_broken_row_is_told(self, data: bytes, error: LegacyTokenizerError) -> None:
        """Line and field, from 1."""
        with raises(error):
            parse_rows(data)

    def test_a_vocabulary_limits_the_ids(self) -> None:
        """Of 3,000 ids the largest is 2,999."""
        assert ((2_999,),) == parse_rows(b"2999\n", 3_000)
        with raises(LegacyTokenizerError("id-too-large", line=2, field=2, text="3000", largest=2_999)):
            parse_rows(b"1\n0,3000\n", 3_000)

    def test_a_sentence_tells_every_value(self) -> None:
        """Of an id that does not fit."""
        error = LegacyTokenizerError("id-too-large", line=2, field=2, text="3000", largest=2_999)
        assert all(str(value) in str(error) for value in error.fields.values())


class TestFilter:
    """The rows that experiments train on."""

    def test_empty_rows_and_large_ids_are_left_out(self) -> None:
        """The largest allowed id is allowed."""
        rows = ((1, 2), (), (2_999,), (0, 3_000, 1), (5,))
        assert ((1, 2), (2_999,), (5,)) == usable_rows(rows)

    def test_the_first_rows_count(self) -> None:
        """Those that were left out do not."""
        rows = ((), (9,), (1,), (2,), (3,))
        assert ((1,), (2,)) == usable_rows(rows, limit=2, largest=8)

    def test_24000_rows_are_kept(self) -> None:
        """Not one more."""
        assert 24_000 == len(usable_rows([(1,)] * 24_001))

    @pytest.mark.parametrize(("limit", "largest"), [(0, 5), (-1, 5), (5, -1)])
    def test_a_filter_that_keeps_nothing_is_refused(self, limit: int, largest: int) -> None:
        """Whatever the rows."""
        with raises(LegacyTokenizerError("invalid-row-filter", limit=limit, largest=largest)):
            usable_rows([], limit, largest)
