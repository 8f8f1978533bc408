"""Control tokens in text: nothing by default, what is allowed where it stands, and never a merge over a token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.errors import CaiReferenceError
from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BOS, CONTROL_NAMES, EOS, BpeTokenizer, encode_with_special
from support_refusals import raises

BYTES = BpeTokenizer(())
MERGING = BpeTokenizer([(ord("a"), ord("b")), (ord(">"), ord("a"))])


def spelled(text: str) -> list[int]:
    """Return one id a byte."""
    return [byte + 2 for byte in text.encode()]


class TestByDefault:
    """Text is text."""

    @pytest.mark.parametrize("text", ["<eos>", "a<bos>b", "<bos><eos>", "<eos", "€<eos>"])
    def test_names_are_bytes(self, text: str) -> None:
        """However much they look like tokens."""
        assert spelled(text) == encode_with_special(BYTES, text)
        assert text == BYTES.decode_text(encode_with_special(BYTES, text))

    @given(st.text("ab<>eos/é€😀", max_size=20), st.lists(st.sampled_from(["<bos>", "<eos>"]), max_size=3))
    @settings(max_examples=20)
    def test_no_text_becomes_a_control_token(self, text: str, names: list[str]) -> None:
        """Names anywhere in it or not: what comes out decodes to the same text."""
        text = text[:3] + "".join(names) + text[3:]
        ids = encode_with_special(MERGING, text)
        assert MERGING.encode(text.encode()) == ids
        assert not {BOS, EOS} & set(ids)
        assert text == MERGING.decode_text(ids)

    def test_a_name_that_is_not_allowed_stays_bytes_beside_one_that_is(self) -> None:
        """Only EOS was asked for."""
        assert [*spelled("<bos>a"), EOS] == encode_with_special(BYTES, "<bos>a<eos>", ["<eos>"])


class TestAllowed:
    """Names that the caller asks for."""

    def test_tokens_stand_where_their_names_stood(self) -> None:
        """First, last, twice in a row, alone."""
        both = list(CONTROL_NAMES)
        assert [BOS, *spelled("ab"), EOS, EOS] == encode_with_special(BYTES, "<bos>ab<eos><eos>", both)
        assert [EOS] == encode_with_special(BYTES, "<eos>", both)
        assert [] == encode_with_special(BYTES, "", both)

    def test_no_merge_reaches_over_a_token(self) -> None:
        """`ab` is one id, but not with a token between; `>a` is one, but not where `>` ends a name."""
        assert [258] == MERGING.encode(b"ab")
        assert [*spelled("a"), EOS, *spelled("b")] == encode_with_special(MERGING, "a<eos>b", ["<eos>"])
        assert [*spelled("<eos"), 259] == encode_with_special(MERGING, "<eos>a")
        assert [EOS, *spelled("a")] == encode_with_special(MERGING, "<eos>a", ["<eos>"])

    def test_of_names_that_start_together_the_longest_is_taken(self) -> None:
        """In whatever order they are allowed or known."""
        names = {"<e>": 0, "<e><e>": 1}
        for allowed in (["<e>", "<e><e>"], ["<e><e>", "<e>"]):
            assert [1, 0] == encode_with_special(BYTES, "<e><e><e>", allowed, names)
        assert [0, 0, 0] == encode_with_special(BYTES, "<e><e><e>", ["<e>"], names)

    def test_of_names_that_overlap_the_first_is_taken(self) -> None:
        """Even where the later one is longer; reading goes on behind it."""
        names = {"ab": 0, "bcde": 1}
        assert [0, *spelled("cde")] == encode_with_special(BYTES, "abcde", names, names)
        assert [*spelled("x"), 1, 0] == encode_with_special(BYTES, "xbcdeab", names, names)

    def test_names_are_no_patterns(self) -> None:
        """Characters that mean something in regular expressions are themselves."""
        names = {"<|.*|>": 0, "[a-z]+": 1, "\\d$": 1}
        text = "a[a-z]+<|.*|>7\\d$<|x|>"
        assert [*spelled("a"), 1, 0, *spelled("7"), 1, *spelled("<|x|>")] == encode_with_special(
            BYTES, text, names, names
        )

    def test_ids_behind_the_vocabulary_can_be_named(self) -> None:
        """A model may have more special tokens than the two."""
        assert [258, *spelled("a")] == encode_with_special(BYTES, "<pad>a", ["<pad>"], {"<pad>": 258})

    def test_names_beyond_one_byte_a_character(self) -> None:
        """Places are those of characters."""
        assert [*spelled("é"), 1, *spelled("€")] == encode_with_special(BYTES, "é‹ende›€", ["‹ende›"], {"‹ende›": 1})

    @pytest.mark.parametrize(
        ("error", "allowed", "names"),
        [
            (
                BpeTokenizerError("unknown-special-name", name="<pad>", known=("<bos>", "<eos>")),
                ["<eos>", "<pad>"],
                CONTROL_NAMES,
            ),
            (BpeTokenizerError("unknown-special-name", name="<", known=("<bos>", "<eos>")), "<eos>", CONTROL_NAMES),
            (BpeTokenizerError("empty-special-name", token_id=0), [""], {"": 0}),
            (BpeTokenizerError("special-id-is-content", name="<a>", token_id=2), ["<a>"], {"<a>": 2}),
            (BpeTokenizerError("special-id-is-content", name="<a>", token_id=257), ["<a>"], {"<a>": 257}),
        ],
        ids=["unknown", "a-text-for-a-list", "empty", "first-content", "last-content"],
    )
    def test_what_cannot_be_allowed(self, error: CaiReferenceError, allowed: list[str], names: dict[str, int]) -> None:
        """Also where the text does not hold the name."""
        with raises(error):
            encode_with_special(BYTES, "text", allowed, names)
