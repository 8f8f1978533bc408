"""Bytes to ids and back: published vectors, non-canonical ids, which error comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.errors import CaiReferenceError
from cai_reference.text.bpe import train
from cai_reference.text.corpus import parse_corpus, parse_manifest, partition
from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BOS, EOS, BpeTokenizer
from support_course import CORPUS, MERGES, SPLITS, TRAIN_LENGTHS, VALIDATION_LENGTHS, needs_corpus
from support_ngram_oracle import encode as oracle_encode
from support_refusals import raises, refuses

COURSE = BpeTokenizer(MERGES)
documents = st.lists(st.binary(max_size=16) | st.text("ab ", max_size=16).map(str.encode), max_size=4)


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        (b"bee ", [100, 103, 265]),
        (" а".encode(), [258, 178]),
        ("река".encode(), [264, 261, 210, 188, 259]),
        ("\U0001f980".encode(), [242, 161, 168, 130]),
        (b"\xff\xfe", [257, 256]),
        (b"At", [67, 118]),
        (b"", []),
    ],
)
def test_the_published_vectors(data: bytes, ids: list[int]) -> None:
    """The course's eight merges, content ids from 2 on."""
    assert ids == COURSE.encode(data)
    assert data == COURSE.decode_content(ids)


def test_the_vocabulary_counts_controls_bytes_and_merges() -> None:
    """2 + 256 + 8."""
    assert (266, 258) == (COURSE.vocabulary_size, BpeTokenizer([]).vocabulary_size)


def test_one_pass_a_rule_in_rank_order() -> None:
    """A later rule never gives an earlier one new material, and the first rule takes what a later one would want."""
    tokenizer = BpeTokenizer([(98, 99), (97, 98)])
    assert [99, 258] == tokenizer.encode(b"abc")
    assert [259] == tokenizer.encode(b"ab")
    assert [258, 99] == BpeTokenizer([(97, 97)]).encode(b"aaa")


def test_ids_that_encoding_would_not_choose_decode_all_the_same() -> None:
    """Two spellings of the same bytes, of which one is canonical."""
    assert COURSE.decode_content([34, 259]) == COURSE.decode_content([258, 178])
    assert [258, 178] == COURSE.encode(COURSE.decode_content([34, 259]))


def test_two_tokens_may_mean_the_same_bytes() -> None:
    """Different pairs can expand alike; both decode."""
    tokenizer = BpeTokenizer([(97, 98), (98, 99), (256, 99), (97, 257)])
    assert b"abc" == tokenizer.decode_content([260]) == tokenizer.decode_content([261])


def test_a_document_is_framed() -> None:
    """BOS in front, EOS behind, nothing between for an empty text."""
    assert [0, 1] == COURSE.encode_document("")
    assert [0, 100, 103, 265, 1] == COURSE.encode_document("bee ")
    assert b"bee " == COURSE.decode_document([0, 100, 103, 265, 1])
    assert b"" == COURSE.decode_document([0, 1])


CONTENT: dict[str, tuple[list[int], CaiReferenceError]] = {
    "BOS": ([67, BOS], BpeTokenizerError("control-token-in-content", position=1, token_id=0)),
    "EOS": ([EOS, 67], BpeTokenizerError("control-token-in-content", position=0, token_id=1)),
    "controls before unknown ids": (
        [999, 67, EOS],
        BpeTokenizerError("control-token-in-content", position=2, token_id=1),
    ),
    "unknown": ([67, 266, 999], BpeTokenizerError("unknown-token", position=1, token_id=266)),
    "negative": ([-1], BpeTokenizerError("unknown-token", position=0, token_id=-1)),
}


@pytest.mark.parametrize(("ids", "expected"), CONTENT.values(), ids=CONTENT)
def test_content_errors_come_in_order(ids: list[int], expected: CaiReferenceError) -> None:
    """The whole list is scanned for controls first."""
    with raises(expected):
        COURSE.decode_content(ids)


DOCUMENT: dict[str, tuple[list[int], CaiReferenceError]] = {
    "empty": ([], BpeTokenizerError("document-too-short", length=0)),
    "one": ([EOS], BpeTokenizerError("document-too-short", length=1)),
    "no BOS, no EOS": ([67, 118], BpeTokenizerError("expected-bos", found=67)),
    "no EOS, unknown inside": ([BOS, 999, 118], BpeTokenizerError("expected-eos", found=118)),
    "unknown before interior control": (
        [BOS, 999, EOS, EOS],
        BpeTokenizerError("interior-control-token", position=2, token_id=1),
    ),
    "BOS inside": ([BOS, BOS, EOS], BpeTokenizerError("interior-control-token", position=1, token_id=0)),
    "unknown": ([BOS, 67, 266, EOS], BpeTokenizerError("unknown-token", position=2, token_id=266)),
    "swapped": ([EOS, BOS], BpeTokenizerError("expected-bos", found=1)),
    "twice BOS": ([BOS, BOS], BpeTokenizerError("expected-eos", found=0)),
}


@pytest.mark.parametrize(("ids", "expected"), DOCUMENT.values(), ids=DOCUMENT)
def test_document_errors_come_in_order(ids: list[int], expected: CaiReferenceError) -> None:
    """Length, BOS, EOS, interior controls, unknown ids; positions count from the BOS."""
    with raises(expected):
        COURSE.decode_document(ids)


@pytest.mark.parametrize(
    ("data", "valid_up_to", "error_length"),
    [
        (b"\xff\xfe", 0, 1),
        (b"At\x80", 2, 1),
        (b"At\xd0", 2, None),
        (b"\xf0\x9f\xa6", 0, None),
        (b"\xf0\x9f\xa6A", 0, 3),
        (b"\xe0\x80\x80", 0, 1),
        (b"\xed\xa0\x80", 0, 1),
        (b"a\xd0\xb0\xf4\x90", 3, 1),
    ],
)
def test_text_needs_utf8(data: bytes, valid_up_to: int, error_length: int | None) -> None:
    """Ids may split a character: the error says how far the text is good, and how many bytes are not, if it goes on."""
    with raises(BpeTokenizerError("invalid-utf8", valid_up_to=valid_up_to, error_length=error_length)):
        COURSE.decode_text(COURSE.encode(data))


def test_text_is_decoded() -> None:
    """And errors of the ids come before those of the bytes."""
    assert "река" == COURSE.decode_text([264, 261, 210, 188, 259])
    with refuses(BpeTokenizerError, "unknown-token"):
        COURSE.decode_text([257, 999])


RULES: dict[str, tuple[list[tuple[int, int]], CaiReferenceError]] = {
    "right operand is itself": ([(97, 256)], BpeTokenizerError("unknown-merge-operand", rank=0, token_id=256)),
    "left operand comes later": (
        [(97, 98), (258, 97)],
        BpeTokenizerError("unknown-merge-operand", rank=1, token_id=258),
    ),
    "negative operand": ([(-1, 97)], BpeTokenizerError("unknown-merge-operand", rank=0, token_id=-1)),
    "left before right": ([(300, 400)], BpeTokenizerError("unknown-merge-operand", rank=0, token_id=300)),
    "repeated pair": (
        [(97, 98), (98, 97), (97, 98)],
        BpeTokenizerError("duplicate-merge-pair", rank=2, left=97, right=98),
    ),
}


@pytest.mark.parametrize(("pairs", "expected"), RULES.values(), ids=RULES)
def test_rules_must_build_on_earlier_ones(pairs: list[tuple[int, int]], expected: CaiReferenceError) -> None:
    """Operands exist already and no pair is joined twice."""
    with raises(expected):
        BpeTokenizer(pairs)


class Endless(Sequence[tuple[int, int]]):
    """So many rules that nobody could store them; asking for one is a failure of the test."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        raise LookupError(index)


def test_the_layout_is_checked_before_the_rules() -> None:
    """The top id is 2^32 - 1 at most; one rule more is refused without reading a rule."""
    with raises(BpeTokenizerError("layout-overflow", merge_count=2**32 - 257)):
        BpeTokenizer(Endless(2**32 - 257))


@given(documents, st.binary(max_size=40), st.integers(0, 10))
def test_decoding_undoes_encoding(corpus: list[bytes], data: bytes, requested: int) -> None:
    """For any learned merges and any bytes, and no control id among the ids."""
    merges = [merge.pair for merge in train(corpus, requested)]
    tokenizer = BpeTokenizer(merges)
    ids = tokenizer.encode(data)
    assert data == tokenizer.decode_content(ids)
    assert not {BOS, EOS} & set(ids)
    assert all(id_ < tokenizer.vocabulary_size for id_ in ids)
    assert oracle_encode(data, merges) == ids


@given(st.text(), st.integers(0, 6))
def test_documents_survive_the_round_trip(text: str, requested: int) -> None:
    """Any text, between its controls."""
    tokenizer = BpeTokenizer([merge.pair for merge in train([text.encode()], requested)])
    ids = tokenizer.encode_document(text)
    assert (BOS, EOS) == (ids[0], ids[-1])
    assert text.encode() == tokenizer.decode_document(ids)
    assert text == tokenizer.decode_text(ids[1:-1])


@given(st.lists(st.integers(2, 265), max_size=20))
def test_every_byte_sequence_has_one_canonical_spelling(ids: list[int]) -> None:
    """Decoding any ids and encoding the bytes gives ids that encode to themselves."""
    data = COURSE.decode_content(ids)
    canonical = COURSE.encode(data)
    assert canonical == COURSE.encode(COURSE.decode_content(canonical))


@needs_corpus
def test_the_published_documents_have_their_lengths() -> None:
    """Both partitions, controls included."""
    parts = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    assert list(TRAIN_LENGTHS) == [len(COURSE.encode_document(member.text)) for member in parts.train]
    assert list(VALIDATION_LENGTHS) == [len(COURSE.encode_document(member.text)) for member in parts.validation]
