"""Streamed decoding: whole characters only, and in the end the text of all ids at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.decoding.text_stream import TextStream
from cai_reference.errors import CaiReferenceError
from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BpeTokenizer
from support_refusals import raises, refuses, values_of

BYTES = BpeTokenizer(())
# Merges that end inside characters: the first two bytes of €, its last byte with a space, the halves of 😀.
CUTTING = BpeTokenizer([(0xE2, 0x82), (0xAC, 0x20), (0xF0, 0x9F), (0x98, 0x80), (0xC3, 0xA9), (260, 256)])

ALPHABET = "aé€😀 \x00\x7f\u0301\uffff\U0010ffff"
"""Characters of one to four bytes, first and last ones among them."""

byte_lists = st.one_of(
    st.binary(max_size=12),
    st.text(ALPHABET + "\ud800", max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from([0x41, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xC0]), max_size=9).map(
        bytes
    ),
)


def streamed(stream: TextStream, ids: list[int]) -> list[str]:
    """Return what each push gives, and what finishing gives."""
    return [*(stream.push(token) for token in ids), stream.finish()]


def ids_of(data: bytes) -> list[int]:
    """Return one id a byte."""
    return [byte + 2 for byte in data]


class TestCharacters:
    """A character comes with its last byte."""

    def test_bytes_one_at_a_time(self) -> None:
        """é, € and 😀 have two, three and four."""
        pieces = streamed(TextStream(BYTES), ids_of("é€😀".encode()))
        assert ["", "é", "", "", "€", "", "", "", "😀", ""] == pieces

    def test_tokens_that_end_inside_characters(self) -> None:
        """Three ids for "€ é": the middle one ends one character and completes another."""
        ids = CUTTING.encode("€ é".encode())
        assert [258, 259, 262] == ids
        assert ["", "€ ", "é", ""] == streamed(TextStream(CUTTING), ids)

    def test_one_token_with_a_whole_character_and_a_part(self) -> None:
        """é and the start of €, in one id."""
        stream = TextStream(CUTTING)
        assert "é" == stream.push(263)
        assert b"\xe2\x82" == stream.pending
        assert "€" == stream.push(0xAC + 2)
        assert b"" == stream.pending

    @given(st.text(ALPHABET, max_size=12))
    @settings(max_examples=25)
    def test_the_pieces_of_a_text_are_that_text(self, text: str) -> None:
        """With merges and without; no piece holds a part of a character."""
        for tokenizer in (BYTES, CUTTING):
            for replace in (False, True):
                stream = TextStream(tokenizer, replace=replace)
                assert text == "".join(streamed(stream, tokenizer.encode(text.encode())))

    def test_a_finished_stream_starts_anew(self) -> None:
        """Positions count from the start again."""
        stream = TextStream(BYTES)
        assert ["A", ""] == streamed(stream, [67])
        with raises(BpeTokenizerError("unknown-token", position=0, token_id=999)):
            stream.push(999)
        assert ["B", ""] == streamed(stream, [68])


class TestInvalidBytes:
    """As the decoding of all ids at once."""

    @given(byte_lists, st.booleans())
    @settings(max_examples=50)
    def test_replacing_gives_the_text_of_all_bytes(self, data: bytes, merged: bool) -> None:
        """U+FFFD for the same parts, wherever ids end."""
        tokenizer = CUTTING if merged else BYTES
        ids = tokenizer.encode(data)
        assert data.decode("utf-8", "replace") == "".join(streamed(TextStream(tokenizer, replace=True), ids))

    @given(byte_lists, st.booleans())
    @settings(max_examples=50)
    def test_without_replacing_text_or_error_are_those_of_decode_text(self, data: bytes, merged: bool) -> None:
        """The same error with the same place; what came before is the start of the valid part."""
        tokenizer = CUTTING if merged else BYTES
        ids = tokenizer.encode(data)
        pieces: list[str] = []
        stream = TextStream(tokenizer)
        try:
            expected = tokenizer.decode_text(ids)
        except BpeTokenizerError as error:
            if error.code != "invalid-utf8":
                raise
            with refuses(BpeTokenizerError, "invalid-utf8") as caught:
                for token in ids:
                    pieces.append(stream.push(token))  # noqa: PERF401 — what was pushed before the error counts
                stream.finish()
            assert values_of(error) == values_of(caught.value)
            assert data.decode(errors="ignore").startswith("".join(pieces))
        else:
            assert expected == "".join(streamed(stream, ids))

    def test_a_character_that_is_never_finished(self) -> None:
        """An error that says how far the text went, and one replacement for all of its bytes."""
        stream = TextStream(BYTES)
        for token in ids_of(b"A\xf0\x9f\x98"):
            stream.push(token)
        with raises(BpeTokenizerError("invalid-utf8", valid_up_to=1, error_length=None)):
            stream.finish()
        assert b"\xf0\x9f\x98" == stream.pending
        assert ["A", "", "", "", "\ufffd"] == streamed(TextStream(BYTES, replace=True), ids_of(b"A\xf0\x9f\x98"))

    def test_an_interrupted_character_is_replaced_when_it_is_known_to_be(self) -> None:
        """With the byte that cannot continue it, which starts anew."""
        assert ["", "", "\ufffdA", ""] == streamed(TextStream(BYTES, replace=True), ids_of(b"\xe2\x82A"))
        assert ["\ufffd", "A", ""] == streamed(TextStream(BYTES, replace=True), ids_of(b"\xffA"))


class TestRefusals:
    """A call that raises changes nothing."""

    @pytest.mark.parametrize(
        ("error", "token", "replace"),
        [
            (BpeTokenizerError("control-token-in-content", position=2, token_id=0), 0, False),
            (BpeTokenizerError("control-token-in-content", position=2, token_id=1), 1, True),
            (BpeTokenizerError("unknown-token", position=2, token_id=258), 258, False),
            (BpeTokenizerError("unknown-token", position=2, token_id=-1), -1, True),
            (BpeTokenizerError("invalid-utf8", valid_up_to=1, error_length=1), 0x41 + 2, False),
        ],
        ids=["bos", "eos", "beyond", "negative", "interrupted"],
    )
    def test_a_refused_id_leaves_the_stream(self, error: CaiReferenceError, token: int, replace: bool) -> None:
        """Positions count ids, and the character can still be finished."""
        stream = TextStream(BYTES, replace=replace)
        assert ["A", ""] == [stream.push(byte + 2) for byte in b"A\xc3"]
        with raises(error):
            stream.push(token)
        assert b"\xc3" == stream.pending
        assert "é" == stream.push(0xA9 + 2)
        with raises(BpeTokenizerError("unknown-token", position=3, token_id=777)):
            stream.push(777)
        assert "" == stream.finish()

    @given(st.lists(st.integers(-1, 264), max_size=9))
    @settings(max_examples=40)
    def test_any_ids_at_all(self, ids: list[int]) -> None:
        """Text where all ids are content; else an error that decoding what was pushed so far gives, too."""
        stream = TextStream(CUTTING)
        pushed: list[int] = []
        try:
            pieces = []
            for token in ids:
                pushed.append(token)
                pieces.append(stream.push(token))
            pieces.append(stream.finish())
        except CaiReferenceError as error:
            with pytest.raises(type(error)) as caught:
                CUTTING.decode_text(pushed)
            assert values_of(error) == values_of(caught.value)
        else:
            assert CUTTING.decode_text(ids) == "".join(pieces)
