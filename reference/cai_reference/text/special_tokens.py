"""Control tokens in text: ids that no text becomes by itself.

A control token has a name for people. Text that happens to spell such a name is text: whoever wrote it must not be
able to end a document or open one. Only a caller who says which names to read as tokens gets tokens.

    "a<eos>"                    →  the ids of seven bytes
    "a<eos>", allowed ["<eos>"] →  the id of `a`, then 1
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BOS, CONTENT_OFFSET, EOS, BpeTokenizer

CONTROL_NAMES: Final[Mapping[str, int]] = MappingProxyType({"<bos>": BOS, "<eos>": EOS})
"""What the control tokens are called where nobody names them otherwise."""


@dataclass(eq=False)
class UnknownSpecialName(BpeTokenizerError):
    """A name is to be read as a token, and no token has it."""

    template = "no special token is called {name!r}; known are {known}"
    name: str
    known: tuple[str, ...]


@dataclass(eq=False)
class EmptySpecialName(BpeTokenizerError):
    """A special token is called by the empty text, which stands everywhere."""

    template = "the special token {token_id} has an empty name"
    token_id: int


@dataclass(eq=False)
class SpecialIdIsContent(BpeTokenizerError):
    """A name stands for an id that bytes are encoded to, so that text and token could not be told apart."""

    template = "{name!r} names token {token_id}, which stands for text"
    name: str
    token_id: int


def encode_with_special(
    tokenizer: BpeTokenizer,
    text: str,
    allowed: Collection[str] = (),
    names: Mapping[str, int] = CONTROL_NAMES,
) -> list[int]:
    """Return the ids of a text in which allowed names are tokens; without allowed ones, those of `tokenizer.encode`.

    The text is read from left to right. Where allowed names overlap, the one that starts first is taken, of several
    that start together the longest, and reading goes on behind it. What is between tokens is encoded piece by piece,
    so that no merge reaches over a token.

    Raises:
        UnknownSpecialName: an allowed name is not among `names`; the first one is named.
        EmptySpecialName, SpecialIdIsContent: an allowed name cannot be read as a token.
    """
    for name in allowed:
        if name not in names:
            raise UnknownSpecialName(name, tuple(names))
        if not name:
            raise EmptySpecialName(names[name])
        if CONTENT_OFFSET <= names[name] < tokenizer.vocabulary_size:
            raise SpecialIdIsContent(name, names[name])
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
