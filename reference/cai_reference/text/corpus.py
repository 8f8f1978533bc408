"""A corpus: documents with an id, a language, a provenance group and a text.

The file is one JSON array. Each document is an object with exactly four string keys, or the same four values as an
array in this order (course, chapter 2). The checks run in file order and the first failure wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_reference.text import strict_json
from cai_reference.text.checksum import corpus_checksum
from cai_reference.text.errors import (
    BlankText,
    CorpusTooLarge,
    DuplicateDocument,
    DuplicateText,
    EmptyCorpus,
    InvalidCorpusJson,
    InvalidIdentifier,
)

MAXIMUM_BYTES: Final = 1 << 20
DOCUMENT_KEYS: Final = ("id", "language", "provenance_group", "text")

# The Unicode property White_Space. Python's str.strip also takes U+001C…U+001F, which are text here.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class Document:
    """One text with where it comes from."""

    identifier: str
    language: str
    provenance_group: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Documents in file order, and the checksum of the exact bytes of the file."""

    documents: tuple[Document, ...]
    checksum: str


def parse_corpus(data: bytes) -> Corpus:
    """Read and check the bytes of a corpus file.

    Raises:
        CorpusTooLarge: more than `MAXIMUM_BYTES` bytes.
        InvalidCorpusJson: not JSON, or another shape.
        EmptyCorpus, InvalidIdentifier, BlankText, DuplicateDocument, DuplicateText: a rule of the corpus is broken.
    """
    if len(data) > MAXIMUM_BYTES:
        raise CorpusTooLarge(len(data), MAXIMUM_BYTES)
    documents = _documents(data)
    _check(documents)
    return Corpus(documents, corpus_checksum(data))


def is_kebab_case(name: str) -> bool:
    """Tell whether a name is lowercase ASCII kebab case: `a-1` is, `1-a`, `a-`, `a--b` and `a_b` are not.

    The first byte is a letter; between hyphens stand one or more lower-case letters and digits.
    """
    letters, digits = set("abcdefghijklmnopqrstuvwxyz"), set("0123456789")
    pieces = name.split("-")
    return all(piece and set(piece) <= letters | digits for piece in pieces) and name[0] in letters


def _documents(data: bytes) -> tuple[Document, ...]:
    try:
        value = strict_json.parse(data)
    except strict_json.JsonProblem as error:
        raise InvalidCorpusJson(str(error)) from None
    if not isinstance(value, list):
        raise InvalidCorpusJson("expected an array of documents")
    return tuple(_document(number, item) for number, item in enumerate(value, start=1))


def _document(number: int, value: strict_json.Json) -> Document:
    if isinstance(value, list):
        if len(value) != len(DOCUMENT_KEYS):
            raise InvalidCorpusJson(f"document {number}: expected 4 elements, found {len(value)}")
        value = strict_json.Object(zip(DOCUMENT_KEYS, value, strict=True))
    if not isinstance(value, strict_json.Object):
        raise InvalidCorpusJson(f"document {number}: expected an object")
    for key in value:
        if key not in DOCUMENT_KEYS:
            raise InvalidCorpusJson(f"document {number}: unknown key {key!r}")
    return Document(*(_string(number, value, key) for key in DOCUMENT_KEYS))


def _string(number: int, value: strict_json.Object, key: str) -> str:
    if key not in value:
        raise InvalidCorpusJson(f"document {number}: missing key {key!r}")
    text = value[key]
    if not isinstance(text, str):
        raise InvalidCorpusJson(f"document {number}: key {key!r} is not a string")
    return text


def _check(documents: tuple[Document, ...]) -> None:
    if not documents:
        raise EmptyCorpus
    identifiers: set[str] = set()
    texts: set[str] = set()
    for number, document in enumerate(documents, start=1):
        for label, name in (
            ("document ID", document.identifier),
            ("language", document.language),
            ("provenance group", document.provenance_group),
        ):
            if not is_kebab_case(name):
                raise InvalidIdentifier(number, label, name)
        if not document.text.strip(WHITE_SPACE):
            raise BlankText(number)
        if document.identifier in identifiers:
            raise DuplicateDocument(document.identifier)
        if document.text in texts:
            raise DuplicateText
        identifiers.add(document.identifier)
        texts.add(document.text)
