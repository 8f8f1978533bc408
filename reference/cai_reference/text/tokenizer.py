"""Byte-pair coding: bytes to ids and back.

Content ids are training tokens + 2, so that 0 and 1 are free for the control tokens. Encoding makes one pass a merge,
in rank order, over the whole sequence; control tokens never take part (course, chapter 4).

| id        | meaning       |
|-----------|---------------|
| 0, 1      | BOS, EOS      |
| 2 … 257   | byte b → b+2  |
| 258 …     | merge of rank id − 258 |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cai_reference.text.bpe import BYTES, Pair, replace
from cai_reference.text.errors import (
    ControlTokenInContent,
    DocumentTooShort,
    DuplicateMergePair,
    ExpectedBos,
    ExpectedEos,
    InteriorControlToken,
    InvalidUtf8,
    LayoutOverflow,
    UnknownMergeOperand,
    UnknownToken,
)

BOS: Final = 0
EOS: Final = 1
CONTROL_TOKENS: Final = 2
CONTENT_OFFSET: Final = CONTROL_TOKENS
MAXIMUM_IDS: Final = 2**32


class BpeTokenizer:
    """A byte-pair tokenizer made from merge pairs in training tokens, by rank.

    Raises:
        LayoutOverflow: the top id would not fit into 32 bits.
        UnknownMergeOperand: a pair refers to a token that no earlier rule makes.
        DuplicateMergePair: a pair stands twice.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        if CONTENT_OFFSET + BYTES + len(pairs) > MAXIMUM_IDS:
            raise LayoutOverflow(len(pairs))
        self.pairs = tuple(pairs)
        self._expansions = [bytes([byte]) for byte in range(BYTES)]
        seen: set[Pair] = set()
        for rank, (left, right) in enumerate(self.pairs):
            for operand in (left, right):
                if not 0 <= operand < BYTES + rank:
                    raise UnknownMergeOperand(rank, operand)
            if (left, right) in seen:
                raise DuplicateMergePair(rank, left, right)
            seen.add((left, right))
            self._expansions.append(self._expansions[left] + self._expansions[right])

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are, the two control tokens included."""
        return CONTENT_OFFSET + len(self._expansions)

    def encode(self, data: bytes) -> list[int]:
        """Return the content ids of any bytes, without control tokens."""
        tokens: list[int] = list(data)
        for rank, pair in enumerate(self.pairs):
            tokens = replace(tokens, pair, BYTES + rank)
        return [token + CONTENT_OFFSET for token in tokens]

    def encode_document(self, text: str) -> list[int]:
        """Return BOS, the content ids of the UTF-8 text, EOS."""
        return [BOS, *self.encode(text.encode("utf-8")), EOS]

    def decode_content(self, ids: Sequence[int]) -> bytes:
        """Return the bytes of content ids.

        Raises:
            ControlTokenInContent: a 0 or 1 stands anywhere (looked for before anything else).
            UnknownToken: an id is not in the vocabulary.
        """
        for position, token in enumerate(ids):
            if token in (BOS, EOS):
                raise ControlTokenInContent(position, token)
        return self._expand(ids, first_position=0)

    def decode_document(self, ids: Sequence[int]) -> bytes:
        """Return the bytes between BOS and EOS; positions in errors count from the BOS.

        Raises:
            DocumentTooShort, ExpectedBos, ExpectedEos, InteriorControlToken, UnknownToken: looked for in this order.
        """
        if len(ids) < CONTROL_TOKENS:
            raise DocumentTooShort(len(ids))
        if ids[0] != BOS:
            raise ExpectedBos(ids[0])
        if ids[-1] != EOS:
            raise ExpectedEos(ids[-1])
        interior = ids[1:-1]
        for position, token in enumerate(interior, start=1):
            if token in (BOS, EOS):
                raise InteriorControlToken(position, token)
        return self._expand(interior, first_position=1)

    def decode_text(self, ids: Sequence[int]) -> str:
        """Return the text of content ids.

        Raises:
            InvalidUtf8: the bytes are not UTF-8 (ids may well split a character).
            ControlTokenInContent, UnknownToken: as in `decode_content`.
        """
        data = self.decode_content(ids)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            cut_off = error.reason == "unexpected end of data"
            raise InvalidUtf8(error.start, None if cut_off else error.end - error.start) from None

    def _expand(self, ids: Sequence[int], first_position: int) -> bytes:
        pieces: list[bytes] = []
        for position, token in enumerate(ids, start=first_position):
            if not CONTENT_OFFSET <= token < self.vocabulary_size:
                raise UnknownToken(position, token)
            pieces.append(self._expansions[token - CONTENT_OFFSET])
        return b"".join(pieces)
