"""Which spellings of corpora and manifests are JSON enough: the strictness table of the course's format."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.text.corpus import MAXIMUM_BYTES, corpus_checksum, parse_corpus, parse_manifest
from cai_reference.text.errors import CorpusError
from cai_reference.text.strict_json import JsonProblem, Object, parse
from support_corpora import corpus_bytes, document, manifest_bytes
from support_refusals import raises, refuses

ONE = b'{"id":"a","language":"en","provenance_group":"g","text":"t"}'


def with_text(spelling: bytes) -> bytes:
    """Return a corpus of one document whose text is spelled so, quotes included."""
    return b'[{"id":"a","language":"en","provenance_group":"g","text":' + spelling + b"}]"


REFUSED = {
    "byte order mark": b"\xef\xbb\xbf[" + ONE + b"]",
    "other trailing bytes": b"[" + ONE + b"] x",
    "second value": b"[" + ONE + b"][]",
    "trailing comma": b"[" + ONE + b",]",
    "vertical tab as white space": b"\v[" + ONE + b"]",
    "form feed as white space": b"[" + ONE + b"]\f",
    "no-break space as white space": "\u00a0[".encode() + ONE + b"]",
    "nothing": b"",
    "white space only": b" \n",
    "not UTF-8": b"[" + ONE + b"]\xff",
    "surrogate in UTF-8": with_text(b'"\xed\xa0\x80"'),
    "duplicate key": b'[{"id":"a","id":"a","language":"en","provenance_group":"g","text":"t"}]',
    "duplicate key by escape": b'[{"id":"a","\\u0069d":"a","language":"en","provenance_group":"g","text":"t"}]',
    "missing key": b'[{"id":"a","language":"en","provenance_group":"g"}]',
    "unknown key": b'[{"id":"a","language":"en","provenance_group":"g","text":"t","note":"n"}]',
    "key in another case": b'[{"ID":"a","language":"en","provenance_group":"g","text":"t"}]',
    "null for a string": with_text(b"null"),
    "number for a string": with_text(b"7"),
    "true for a string": with_text(b"true"),
    "array for a string": with_text(b'["t"]'),
    "leading zero": with_text(b"01"),
    "NaN": with_text(b"NaN"),
    "Infinity": with_text(b"-Infinity"),
    "endless digits": with_text(b"9" * 5000),
    "lone high surrogate": with_text(b'"\\ud83e"'),
    "lone low surrogate": with_text(b'"\\udd80"'),
    "surrogates in the wrong order": with_text(b'"\\udd80\\ud83e"'),
    "lone surrogate in a key": b'[{"id":"a","language":"en","provenance_group":"g","text":"t","\\ud800":1}]',
    "raw control character": with_text(b'"a\nb"'),
    "raw NUL": with_text(b'"a\x00b"'),
    "unknown escape": with_text(b'"\\x41"'),
    "single quotes": b"[{'id':'a'}]",
    "comment": b"[" + ONE + b"] // no",
    "object at the top": ONE,
    "string at the top": b'"a"',
    "three positional values": b'[["a","en","g"]]',
    "five positional values": b'[["a","en","g","t","u"]]',
    "number in a positional document": b'[["a","en","g",7]]',
    "document that is a string": b'["a"]',
    "document that is null": b"[null]",
    "nested beyond any depth": b"[" * 100_000,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_these_spellings_of_a_corpus_are_refused(data: bytes) -> None:
    """The error opens with fixed words and says what is wrong."""
    with refuses(CorpusError, "invalid-corpus-json") as caught:
        parse_corpus(data)
    assert str(caught.value).startswith("invalid corpus JSON: ")
    assert str(caught.value.fields["problem"]) in str(caught.value)


ACCEPTED = {
    "plain": (with_text(b'"t"'), "t"),
    "white space around": (b" \t\r\n" + with_text(b'"t"') + b"\n\r\t ", "t"),
    "paired surrogate escapes": (with_text(b'"\\ud83e\\udd80"'), "\U0001f980"),
    "escaped NUL": (with_text(b'"a\\u0000"'), "a\0"),
    "escaped ASCII": (with_text(b'"\\u002d\\/"'), "-/"),
    "raw DEL and non-characters": (with_text('"\x7f\uffff"'.encode()), "\x7f\uffff"),
    "keys in another order": (b'[{"text":"t","provenance_group":"g","language":"en","id":"a"}]', "t"),
    "key by escape": (b'[{"\\u0069d":"a","language":"en","provenance_group":"g","text":"t"}]', "t"),
    "positional": (b'[["a","en","g","t"]]', "t"),
}


@pytest.mark.parametrize(("data", "text"), ACCEPTED.values(), ids=ACCEPTED)
def test_these_spellings_of_a_corpus_are_taken(data: bytes, text: str) -> None:
    """Escapes are decoded, white space around the value is ignored, and a document may be positional."""
    (only,) = parse_corpus(data).documents
    assert ("a", "en", "g", text) == (only.identifier, only.language, only.provenance_group, only.text)


def test_an_escaped_hyphen_in_an_id_is_a_hyphen() -> None:
    """The rules look at decoded strings."""
    data = corpus_bytes(document("a-1")).replace(b"a-1", b"a\\u002d1")
    assert "a-1" == parse_corpus(data).documents[0].identifier


def test_the_checksum_sees_what_the_parser_ignores() -> None:
    """Trailing white space changes the checksum and nothing else."""
    plain, spaced = corpus_bytes(document()), corpus_bytes(document()) + b"\n"
    assert parse_corpus(plain).documents == parse_corpus(spaced).documents
    assert (corpus_checksum(plain), corpus_checksum(spaced)) == (
        parse_corpus(plain).checksum,
        parse_corpus(spaced).checksum,
    )
    assert corpus_checksum(plain) != corpus_checksum(spaced)


def test_the_size_limit_is_looked_at_first() -> None:
    """One byte beyond a mebibyte is refused unread; exactly a mebibyte is parsed."""
    padded = corpus_bytes(document())
    padded += b" " * (MAXIMUM_BYTES - len(padded))
    assert 2**20 == len(padded)
    assert 1 == len(parse_corpus(padded).documents)
    with raises(CorpusError("corpus-too-large", size=2**20 + 1, limit=2**20)):
        parse_corpus(b"x" * (MAXIMUM_BYTES + 1))


SIX = [1, "c", "s", ["a"], ["b"], ["c"]]

REFUSED_MANIFESTS = {
    "byte order mark": b"\xef\xbb\xbf" + manifest_bytes(),
    "trailing bytes": manifest_bytes() + b"x",
    "version 1.0": manifest_bytes(schema_version=1.0),
    "version 1e0": manifest_bytes().replace(b'"schema_version": 1', b'"schema_version": 1e0'),
    "version -0": manifest_bytes().replace(b'"schema_version": 1', b'"schema_version": -0'),
    "version -1": manifest_bytes(schema_version=-1),
    "version 2^32": manifest_bytes(schema_version=2**32),
    "version as a string": manifest_bytes(schema_version="1"),
    "version true": manifest_bytes(schema_version=True),
    "version null": manifest_bytes(schema_version=None),
    "checksum null": manifest_bytes(corpus_checksum=None),
    "strategy a number": manifest_bytes(strategy=1),
    "train a string": manifest_bytes(train="a"),
    "train null": manifest_bytes(train=None),
    "number among the ids": manifest_bytes(test=["c", 1]),
    "unknown key": manifest_bytes(note=1),
    "missing key": manifest_bytes().replace(b', "test": ["c"]', b""),
    "duplicate key": manifest_bytes().replace(b'"train"', b'"test"'),
    "five positional values": json.dumps(SIX[:5]).encode(),
    "seven positional values": json.dumps([*SIX, 1]).encode(),
    "a string": b'"manifest"',
    "null": b"null",
}


@pytest.mark.parametrize("data", REFUSED_MANIFESTS.values(), ids=REFUSED_MANIFESTS)
def test_these_spellings_of_a_manifest_are_refused(data: bytes) -> None:
    """The error opens with fixed words and says what is wrong."""
    with refuses(CorpusError, "invalid-manifest-json") as caught:
        parse_manifest(data)
    assert str(caught.value).startswith("invalid split manifest JSON: ")


@pytest.mark.parametrize("version", [0, 1, 2, 2**32 - 1])
def test_any_unsigned_version_parses(version: int) -> None:
    """Whether a version is supported is not a question of JSON."""
    assert version == parse_manifest(manifest_bytes(schema_version=version)).schema_version


def test_a_manifest_may_be_positional() -> None:
    """Six values in key order mean the same as an object."""
    positional = parse_manifest(json.dumps(SIX).encode())
    assert positional == parse_manifest(manifest_bytes(corpus_checksum="c", strategy="s"))
    assert (("train", ("a",)), ("validation", ("b",)), ("test", ("c",))) == positional.lists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(json_values)
def test_what_a_json_writer_writes_is_read_back(value: object) -> None:
    """Strictness refuses nothing that is JSON, escaped or not."""
    assert value == parse(json.dumps(value).encode())
    assert value == parse(json.dumps(value, ensure_ascii=False).encode())


def test_minus_zero_is_a_fraction() -> None:
    """A typed reader takes -0 for the floating-point number that it denotes; 0 and -1 are integers."""
    values = parse(b"[-0, 0, -1]")
    assert isinstance(values, list)
    assert ["float", "int", "int"] == [type(value).__name__ for value in values]


def test_an_object_keeps_its_order() -> None:
    """Keys come out as they stand in the text."""
    value = parse(b'{"b": {}, "a": 1}')
    assert isinstance(value, Object)
    assert ["b", "a"] == list(value)


def test_a_problem_says_where() -> None:
    """Line and column, or the byte, of the first offence."""
    with pytest.raises(JsonProblem, match="line 2 column 4"):
        parse(b"[1,\n 2 3]")
    with pytest.raises(JsonProblem, match="byte 2"):
        parse(b"[1\xff]")
