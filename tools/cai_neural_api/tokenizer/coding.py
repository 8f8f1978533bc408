"""From text to ids and back, as the library does it, with what it loses on the way.

- A word that stands in the vocabulary gets one id, whatever its letter case, so that the case is lost: "The" → "the".
- Any other word is cut greedily. A part grows by one byte at a time while it is in the vocabulary, so that a longer
  part is found only if every shorter one from two bytes on is an entry, too.
- Bytes above 127 are their own ids, although ids from 128 on are entries of the vocabulary: text that is not ASCII
  does not come back.

Source: CAI NEURAL API, tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cai_neural_api.errors import LegacyTokenizerError
from cai_neural_api.tokenizer.vocabulary import SINGLE_BYTES, Rows, Vocabulary, lines_of, refuse_bytes

SPACE: Final = ord(" ")
QUOTE_MARK: Final = 29
"""The byte with which the library quotes words."""

STARTS_A_PART: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz'")


def encode(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Return the ids of a text; words are what stands between single spaces, so that a line end is part of a word.

    Raises:
        LegacyTokenizerError (reserved-byte): the text holds NUL or byte 29.
    """
    refuse_bytes(text, bytes([0, QUOTE_MARK]))
    ids: list[int] = []
    for place, word in enumerate(text.split(b" ")):
        if place:
            ids.append(SPACE)
        if len(word) == 1:
            ids.append(word[0])
        elif word:
            whole = vocabulary.ids_of_words.get(word.lower())
            ids.extend(_parts(vocabulary, word) if whole is None else (whole,))
    return ids


def _parts(vocabulary: Vocabulary, word: bytes) -> Iterator[int]:
    known, lower = vocabulary.ids_of_parts, word.lower()
    start = 0
    while start < len(word):
        found, end = word[start], start + 1
        # Letters are tested as they are, but looked up without regard to case: "Ab" is two bytes, "aB" may be a part.
        if found in STARTS_A_PART:
            while end < len(word) and (longer := known.get(lower[start : end + 1])) is not None:
                found, end = longer, end + 1
        yield found
        start = end


def decode(vocabulary: Vocabulary, ids: Sequence[int]) -> bytes:
    """Return the bytes that ids stand for; an id beyond the vocabulary stands for none.

    Raises:
        LegacyTokenizerError (undecodable-id): an id is negative.
    """
    text = bytearray()
    for position, token in enumerate(ids):
        if token < 0:
            raise LegacyTokenizerError("undecodable-id", position=position, token_id=token)
        if token < SINGLE_BYTES:
            text.append(token)
        elif token < vocabulary.size:
            text += vocabulary.entries[token - SINGLE_BYTES]
    return bytes(text)


def encode_lines(vocabulary: Vocabulary, text: bytes) -> Rows:
    """Return a row of ids for every line of a text, without its line end; an empty line gives an empty row.

    Raises:
        LegacyTokenizerError (reserved-byte): the text holds NUL or byte 29.
    """
    refuse_bytes(text, bytes([0, QUOTE_MARK]))
    return tuple(tuple(encode(vocabulary, line)) for line in lines_of(text))
