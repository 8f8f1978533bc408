"""What a corpus must satisfy beyond being JSON, and which failure is reported where there are several."""

from __future__ import annotations

import unicodedata

import pytest

from cai_reference.errors import CaiReferenceError
from cai_reference.text.corpus import WHITE_SPACE, corpus_checksum, fnv1a64, is_kebab_case, parse_corpus
from cai_reference.text.errors import CorpusError
from support_corpora import corpus_bytes, document
from support_course import CORPUS, needs_corpus
from support_refusals import raises, refuses


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        (b"hello", 0xA430D84680AABD0B),
    ],
)
def test_fnv1a_matches_its_authors_vectors(data: bytes, hashed: int) -> None:
    """64-bit FNV-1a over the bytes, spelled as a label and sixteen lower-case digits."""
    assert hashed == fnv1a64(data)
    assert f"fnv1a64:{hashed:016x}" == corpus_checksum(data)


def test_the_checksum_normalises_nothing() -> None:
    """Line ends and composed characters count byte by byte."""
    assert corpus_checksum(b"a\n") != corpus_checksum(b"a\r\n")
    assert corpus_checksum("\u00e9".encode()) != corpus_checksum("e\u0301".encode())


@needs_corpus
def test_the_published_corpus_has_its_checksum() -> None:
    """Twelve documents in six groups, 4785 bytes."""
    data = CORPUS.read_bytes()
    corpus = parse_corpus(data)
    assert (4785, "fnv1a64:723b071980ae8a22") == (len(data), corpus.checksum)
    assert (12, 6) == (len(corpus.documents), len({member.provenance_group for member in corpus.documents}))


@pytest.mark.parametrize("name", ["a", "en", "a1", "a-1", "en-river-dawn", "x0-0x-00"])
def test_these_are_kebab_case(name: str) -> None:
    """Letters and digits between single hyphens, a letter in front."""
    assert is_kebab_case(name)


@pytest.mark.parametrize(
    "name", ["", "-", "a-", "-a", "a--b", "a_b", "1-a", "A", "aB", "a b", "a.b", "é", "a-é", "a\n", "٣", "a٣", "ª"]
)
def test_these_are_not_kebab_case(name: str) -> None:
    """Empty pieces, a leading digit, and whatever is not lower-case ASCII."""
    assert not is_kebab_case(name)


@pytest.mark.parametrize("blank", ["", " ", "\t\n\v\f\r ", "\u00a0", "\u0085", "\u2028", "\u2029", "\u3000", "\u1680"])
def test_white_space_alone_is_blank(blank: str) -> None:
    """Blank is what the Unicode property White_Space leaves nothing of."""
    with raises(CorpusError("blank-text", document=1)):
        parse_corpus(corpus_bytes(document(text=blank)))


@pytest.mark.parametrize("text", ["\u200b", "\u001c", "\u001d", "\u001e", "\u001f", "\ufeff", "\u2060", "\u180e", "\0"])
def test_these_look_blank_but_are_text(text: str) -> None:
    """Format and separator controls are not White_Space, although Python's strip takes four of them."""
    assert text == parse_corpus(corpus_bytes(document(text=text))).documents[0].text


def test_the_white_space_set_is_the_unicode_property() -> None:
    """The property holds 25 characters: the space separators, the two line separators, and six controls."""
    separators = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp")}
    assert separators | set("\t\n\v\f\r\u0085") == set(WHITE_SPACE)
    assert 25 == len(WHITE_SPACE)


def test_surrounding_white_space_stays_in_the_text() -> None:
    """Trimming is for the test only."""
    assert " t \n" == parse_corpus(corpus_bytes(document(text=" t \n"))).documents[0].text


def test_documents_keep_the_order_of_the_file() -> None:
    """Nothing is sorted."""
    corpus = parse_corpus(corpus_bytes(document("b", "1"), document("a", "2"), document("c", "3")))
    assert ["b", "a", "c"] == [member.identifier for member in corpus.documents]


GOOD, BAD_ID = document("a", "1"), document("A", "2")
FIRST_FAILURES: dict[str, tuple[list[dict[str, str]], CaiReferenceError]] = {
    "id before language": (
        [document("A", "", "E", "G")],
        CorpusError("invalid-identifier", document=1, label="document ID", value="A"),
    ),
    "language before group": (
        [document("a", "", "E", "G")],
        CorpusError("invalid-identifier", document=1, label="language", value="E"),
    ),
    "group before text": (
        [document("a", "", "en", "G")],
        CorpusError("invalid-identifier", document=1, label="provenance group", value="G"),
    ),
    "text before a repeated id": ([GOOD, document("a", " ")], CorpusError("blank-text", document=2)),
    "repeated id before repeated text": ([GOOD, GOOD], CorpusError("duplicate-document", identifier="a")),
    "repeated text": ([GOOD, document("b", "1")], CorpusError("duplicate-text")),
    "documents in file order": ([GOOD, document("b", "1"), BAD_ID], CorpusError("duplicate-text")),
    "an earlier document first": ([GOOD, document("b", " "), BAD_ID], CorpusError("blank-text", document=2)),
    "the number counts from 1": (
        [GOOD, document("b", "2"), BAD_ID],
        CorpusError("invalid-identifier", document=3, label="document ID", value="A"),
    ),
}


@pytest.mark.parametrize(("documents", "expected"), FIRST_FAILURES.values(), ids=FIRST_FAILURES)
def test_the_first_failure_wins(documents: list[dict[str, str]], expected: CaiReferenceError) -> None:
    """Document by document: id, language, group, text, repeated id, repeated text."""
    with raises(expected):
        parse_corpus(corpus_bytes(*documents))


def test_the_shape_of_every_document_is_looked_at_before_any_rule() -> None:
    """A broken second document hides a rule that the first one breaks."""
    with refuses(CorpusError, "invalid-corpus-json", match="document 2: missing key 'language'"):
        parse_corpus(corpus_bytes(document("A"), {"id": "b"}))


def test_texts_that_differ_in_white_space_are_different() -> None:
    """Only identical content counts as repeated."""
    assert 2 == len(parse_corpus(corpus_bytes(document("a", "t"), document("b", "t "))).documents)
