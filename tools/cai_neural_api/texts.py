"""Prompts as ids and ids as texts, by a vocabulary of the library's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cai_conformance.errors import InputError
from cai_conformance.fixtures.files import FilePath, read_file
from cai_neural_api.errors import LegacyTokenizerError, NetInputError
from cai_neural_api.tokenizer import Vocabulary, decode, encode
from cai_reference.errors import CaiReferenceError

CONTROL_IDS: Final = 2
"""Ids below this one end a text."""


def read_vocabulary(path: FilePath, known: int) -> Vocabulary:
    """Read the vocabulary of a net that knows so many ids.

    A net may know more ids than there are: vocabularies turn out smaller than was asked for.

    Raises:
        InputError (input-unreadable): the operating system refuses, or the file is damaged.
        NetInputError (vocabulary-too-large): there are ids that the net does not know.
    """
    try:
        vocabulary = Vocabulary.parse(read_file(path))
    except LegacyTokenizerError as error:
        raise InputError("input-unreadable", path=str(path), problem=str(error)) from None
    if vocabulary.size > known:
        raise NetInputError("vocabulary-too-large", given=vocabulary.size, known=known)
    return vocabulary


def prompt_ids(vocabulary: Vocabulary, text: str, number: int) -> tuple[int, ...]:
    """Return the ids of a prompt, the `number`-th from 1.

    Raises:
        InputError (input-unreadable): the tokenizer cannot take the text.
    """
    try:
        return tuple(encode(vocabulary, text.encode("utf-8", "surrogateescape")))
    except CaiReferenceError as error:
        raise InputError("input-unreadable", path=f"prompt {number}", problem=str(error)) from None


def shown_text(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """Return what ids stand for up to the first control id; ids that the vocabulary does not have are shown as numbers.

    Bytes that are no text are spelled as escapes.
    """
    parts: list[str] = []
    known: list[int] = []

    def flush() -> None:
        parts.append(decode(vocabulary, known).decode("utf-8", "backslashreplace"))
        known.clear()

    for token in ids:
        if token < CONTROL_IDS:
            break
        if token < vocabulary.size:
            known.append(token)
        else:
            flush()
            parts.append(f"<{token}>")
    flush()
    return "".join(parts)
