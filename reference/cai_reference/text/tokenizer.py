"""Byte-pair coding: bytes to ids and back.

Content ids are training tokens + 2, so that 0 and 1 are free for the control tokens. Encoding makes one pass a merge,
in rank order, over the whole sequence; control tokens never take part (course, chapter 4).

| id        | meaning       |
|-----------|---------------|
| 0, 1      | BOS, EOS      |
| 2 … 257   | byte b → b+2  |
| 258 …     | merge of rank id − 258 |

Control tokens in text: ids that no text becomes by itself.

A control token has a name for people. Text that happens to spell such a name is text: whoever wrote it must not be
able to end a document or open one. Only a caller who says which names to read as tokens gets tokens.

    "a<eos>"                    →  the ids of seven bytes
    "a<eos>", allowed ["<eos>"] →  the id of `a`, then 1
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cai_reference.text.bpe import BYTES, Pair, replace
from cai_reference.text.errors import BpeTokenizerError

BOS: Final = 0
EOS: Final = 1
CONTROL_TOKENS: Final = 2
CONTENT_OFFSET: Final = CONTROL_TOKENS
MAXIMUM_IDS: Final = 2**32


class BpeTokenizer:
    """A byte-pair tokenizer made from merge pairs in training tokens, by rank.

    Raises:
        BpeTokenizerError (layout-overflow): the top id would not fit into 32 bits.
        BpeTokenizerError (unknown-merge-operand): a pair refers to a token that no earlier rule makes.
        BpeTokenizerError (duplicate-merge-pair): a pair stands twice.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        if CONTENT_OFFSET + BYTES + len(pairs) > MAXIMUM_IDS:
            raise BpeTokenizerError("layout-overflow", merge_count=len(pairs))
        self.pairs = tuple(pairs)
        self._expansions = [bytes([byte]) for byte in range(BYTES)]
        seen: set[Pair] = set()
        for rank, (left, right) in enumerate(self.pairs):
            for operand in (left, right):
                if not 0 <= operand < BYTES + rank:
                    raise BpeTokenizerError("unknown-merge-operand", rank=rank, token_id=operand)
            if (left, right) in seen:
                raise BpeTokenizerError("duplicate-merge-pair", rank=rank, left=left, right=right)
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
            BpeTokenizerError (control-token-in-content): a 0 or 1 stands anywhere (looked for before anything else).
            BpeTokenizerError (unknown-token): an id is not in the vocabulary.
        """
        for position, token in enumerate(ids):
            if token in (BOS, EOS):
                raise BpeTokenizerError("control-token-in-content", position=position, token_id=token)
        return self._expand(ids, first_position=0)

    def decode_document(self, ids: Sequence[int]) -> bytes:
        """Return the bytes between BOS and EOS; positions in errors count from the BOS.

        Raises:
            BpeTokenizerError (document-too-short, expected-bos, expected-eos, interior-control-token, unknown-token):
                looked for in this order.
        """
        if len(ids) < CONTROL_TOKENS:
            raise BpeTokenizerError("document-too-short", length=len(ids))
        if ids[0] != BOS:
            raise BpeTokenizerError("expected-bos", found=ids[0])
        if ids[-1] != EOS:
            raise BpeTokenizerError("expected-eos", found=ids[-1])
        interior = ids[1:-1]
        for position, token in enumerate(interior, start=1):
            if token in (BOS, EOS):
                raise BpeTokenizerError("interior-control-token", position=position, token_id=token)
        return self._expand(interior, first_position=1)

    def decode_text(self, ids: Sequence[int]) -> str:
        """Return the text of content ids.

        Raises:
            BpeTokenizerError (invalid-utf8): the bytes are not UTF-8 (ids may well split a character).
            BpeTokenizerError (control-token-in-content, unknown-token): as in `decode_content`.
        """
        data = self.decode_content(ids)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            cut_off = error.reason == "unexpected end of data"
            raise BpeTokenizerError(
                "invalid-utf8", valid_up_to=error.start, error_length=None if cut_off else error.end - error.start
            ) from None

    def _expand(self, ids: Sequence[int], first_position: int) -> bytes:
        pieces: list[bytes] = []
        for position, token in enumerate(ids, start=first_position):
            if not CONTENT_OFFSET <= token < self.vocabulary_size:
                raise BpeTokenizerError("unknown-token", position=position, token_id=token)
            pieces.append(self._expansions[token - CONTENT_OFFSET])
        return b"".join(pieces)


CONTROL_NAMES: Final[Mapping[str, int]] = MappingProxyType({"<bos>": BOS, "<eos>": EOS})
"""What the control tokens are called where nobody names them otherwise."""


def encode_with_special(
    tokenizer: BpeTokenizer, text: str, allowed: Collection[str] = (), names: Mapping[str, int] = CONTROL_NAMES
) -> list[int]:
    """Return the ids of a text in which allowed names are tokens; without allowed ones, those of `tokenizer.encode`.

    The text is read from left to right. Where allowed names overlap, the one that starts first is taken, of several
    that start together the longest, and reading goes on behind it. What is between tokens is encoded piece by piece,
    so that no merge reaches over a token.

    Raises:
        BpeTokenizerError (unknown-special-name): an allowed name is not among `names`; the first one is named.
        BpeTokenizerError (empty-special-name, special-id-is-content): an allowed name cannot be read as a token.
    """
    for name in allowed:
        if name not in names:
            raise BpeTokenizerError("unknown-special-name", name=name, known=tuple(names))
        if not name:
            raise BpeTokenizerError("empty-special-name", token_id=names[name])
        if CONTENT_OFFSET <= names[name] < tokenizer.vocabulary_size:
            raise BpeTokenizerError("special-id-is-content", name=name, token_id=names[name])
    if not allowed:
        return tokenizer.encode(text.encode("utf-8"))
    # An alternative that is tried earlier wins, so the longest come first.
    pattern = re.compile("|".join(re.escape(name) for name in sorted(allowed, key=len, reverse=True)))
    ids: list[int] = []
    start = 0
    for match in pattern.finditer(text):
        ids += tokenizer.encode(text[start : match.start()].encode("utf-8"))
        ids.append(names[match.group()])
        start = match.end()
    return ids + tokenizer.encode(text[start:].encode("utf-8"))
