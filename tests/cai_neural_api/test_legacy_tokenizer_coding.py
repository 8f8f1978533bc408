"""The legacy tokenizer's ids: those of the library on its samples, and each of its quirks by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.tokenizer import Vocabulary, decode, encode, encode_lines, format_rows, parse_rows
from support_legacy_tokenizer import (
    SEEDS,
    STORIES,
    Probe,
    needs_samples,
    needs_stories,
    plain_encode,
    probes,
    story_pieces,
    tiny_rows,
    tiny_text,
    tiny_vocabulary,
)

SORTED = Vocabulary.parse(b"an\nand\nband\nthe\n")
UNSORTED = Vocabulary.parse(b"the\nban\nba\nan\n")


@needs_samples
class TestSamples:
    """What the library answered."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_texts_get_the_ids_of_the_library(self, seed: int) -> None:
        """And these ids give back the text that it gave back."""
        vocabulary = Vocabulary.parse(tiny_vocabulary(seed))

        def coded(probe: Probe) -> tuple[list[int], bytes]:
            return encode(vocabulary, bytes.fromhex(probe["text_hex"])), decode(vocabulary, probe["tokens"])

        found = probes(seed)
        assert 12 == len(found)
        assert [(probe["tokens"], bytes.fromhex(probe["detok_hex"])) for probe in found] == list(map(coded, found))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_file_gets_the_rows_of_the_library(self, seed: int) -> None:
        """Byte for byte."""
        rows = encode_lines(Vocabulary.parse(tiny_vocabulary(seed)), tiny_text())
        assert tiny_rows(seed) == format_rows(rows)


@needs_stories
class TestStories:
    """1,585 rows that the library made of real stories."""

    def test_every_row_is_that_of_its_piece(self) -> None:
        """The pieces, coded, are the file; the file, decoded, is the pieces."""
        vocabulary = Vocabulary.parse((STORIES / "vocabulary.txt").read_bytes())
        data, pieces = (STORIES / "rows.csv").read_bytes(), story_pieces()
        assert 1_585 == len(pieces)
        assert data == format_rows(encode_lines(vocabulary, b"".join(piece + b"\n" for piece in pieces)))
        assert pieces == [decode(vocabulary, row) for row in parse_rows(data, vocabulary.size)]


class TestWholeWords:
    """A word between single spaces that is an entry."""

    def test_a_word_gets_its_place_in_sorted_order(self) -> None:
        """Sorted: an, ba, ban, the; the file has them otherwise."""
        assert [131, 32, 130, 32, 129, 32, 128] == encode(UNSORTED, b"the ban ba an")

    def test_letter_case_is_ignored_and_lost(self) -> None:
        """In text and vocabulary."""
        assert [131, 32, 131] == encode(SORTED, b"The tHE")
        assert b"the the" == decode(SORTED, [131, 32, 131])
        assert [128] == encode(Vocabulary.parse(b"AN\n"), b"an")

    def test_letter_case_is_that_of_ascii(self) -> None:
        """An accent makes another word."""
        assert [128] == encode(Vocabulary.parse("éé\n".encode()), "éé".encode())
        assert [0xC3, 0x89, 0xC3, 0x89] == encode(Vocabulary.parse("éé\n".encode()), "ÉÉ".encode())

    def test_one_byte_is_its_own_id(self) -> None:
        """Even where it is an entry."""
        assert [97, 32, 65] == encode(Vocabulary.parse(b"a\n"), b"a A")

    @pytest.mark.parametrize(
        ("text", "ids"),
        [(b"", []), (b" ", [32]), (b"  an ", [32, 32, 128, 32]), (b"an\nan", [128, 10, 128]), (b"an\n", [128, 10])],
    )
    def test_only_spaces_split_words(self, text: bytes, ids: list[int]) -> None:
        """Each of them is an id; a line end belongs to the word around it."""
        assert ids == encode(SORTED, text)


class TestPartsOfWords:
    """A word that is no entry is cut from the left."""

    def test_a_part_gets_its_line_in_the_file(self) -> None:
        """Sorted, "ba" and "ban" would be 129 and 130."""
        assert [129, 120] == encode(UNSORTED, b"banx")
        assert [130, 120] == encode(UNSORTED, b"bax")

    def test_a_part_grows_only_over_entries(self) -> None:
        """The first vocabulary has "band", but neither "ba" nor "ban"; it has both "an" and "and"."""
        assert [98, 129, 115] == encode(SORTED, b"bands")
        assert [129, 100, 115] == encode(UNSORTED, b"bands")

    def test_the_longest_part_wins(self) -> None:
        """Here "and", not "an"."""
        assert [129, 129] == encode(SORTED, b"andand")

    def test_the_last_byte_is_itself(self) -> None:
        """One byte is left behind the part."""
        assert [128, 97] == encode(SORTED, b"ana")

    def test_a_part_begins_with_a_small_letter_or_an_apostrophe(self) -> None:
        """It may go on in capitals."""
        vocabulary = Vocabulary.parse(b"'t\n-a\nan\n")
        assert [120, 128] == encode(vocabulary, b"x't")
        assert [120, 45, 97] == encode(vocabulary, b"x-a")
        assert [65, 110, 120] == encode(vocabulary, b"Anx")
        assert [130, 120] == encode(vocabulary, b"aNx")


class TestIds:
    """Going back."""

    def test_bytes_above_127_collide_with_entries(self) -> None:
        """A quirk: they are their own ids, which are those of entries."""
        assert [0x80, 0x81] == encode(SORTED, b"\x80\x81")
        assert b"anand" == decode(SORTED, [0x80, 0x81])

    def test_ids_beyond_the_vocabulary_give_nothing(self) -> None:
        """As the library's do."""
        assert b"a-b" == decode(SORTED, [97, 132, 45, 3_000, 98])

    @settings(max_examples=60)
    @given(
        st.lists(st.text("aBn't", min_size=1, max_size=4), max_size=12, unique_by=str.lower),
        st.text("aAbnN't-\n \u00e9", max_size=30),
    )
    def test_ids_are_those_of_the_plain_description(self, entries: list[str], text: str) -> None:
        """Any vocabulary, in any order; text without capitals and accents comes back, too."""
        vocabulary = Vocabulary(tuple(entry.encode() for entry in entries))
        ids = encode(vocabulary, text.encode())
        assert plain_encode(list(vocabulary.entries), text.encode()) == ids
        if text.isascii() and text.islower() and "".join(entries).islower():
            assert text.encode() == decode(vocabulary, ids)

    def test_lines_are_rows(self) -> None:
        """Whatever ends them; an empty line is an empty row, and the last end may be missing."""
        assert ((128,), (), (131,)) == encode_lines(SORTED, b"an\r\n\nthe")
        assert () == encode_lines(SORTED, b"")
        assert ((),) == encode_lines(SORTED, b"\n")
