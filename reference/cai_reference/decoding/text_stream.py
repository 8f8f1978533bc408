"""Streamed decoding: text from ids that come one at a time, in whole characters.

An id may end inside a character, so bytes of an unfinished one are held back until it is complete. What was pushed
and finished, joined, is the text of all ids decoded at once: `BpeTokenizer.decode_text`, or, where replacing, the same
with U+FFFD for every maximal part that is no UTF-8 (Unicode Standard, chapter 3, "U+FFFD substitution").

    é€😀, a byte an id:  "", "é", "", "", "€", "", "", "", "😀"
"""

from __future__ import annotations

from typing import Final

from cai_reference.text.errors import BpeTokenizerError
from cai_reference.text.tokenizer import BOS, EOS, BpeTokenizer

REPLACEMENT: Final = "\ufffd"


class TextStream:
    """One text being decoded. A call that raises leaves the stream as it was.

    With `replace`, bytes that are no UTF-8 become U+FFFD; without, they are an error, as in `decode_text`. Control
    tokens are an error in both, as in `decode_content`.
    """

    def __init__(self, tokenizer: BpeTokenizer, *, replace: bool = False) -> None:
        self._tokenizer = tokenizer
        self._replace = replace
        self._start()

    def _start(self) -> None:
        self._pending = b""
        self._read = 0
        self._tokens = 0

    @property
    def pending(self) -> bytes:
        """The bytes of an unfinished character: what is held back."""
        return self._pending

    def push(self, token: int) -> str:
        """Take one id and return the characters that it completes, perhaps none.

        Raises:
            BpeTokenizerError (control-token-in-content, unknown-token): the id stands for no bytes; its position counts
                from the first push.
            BpeTokenizerError (invalid-utf8): the bytes can be no part of UTF-8; `valid_up_to` counts from the first
                push.
        """
        if token in (BOS, EOS):
            raise BpeTokenizerError("control-token-in-content", position=self._tokens, token_id=token)
        if not 0 <= token < self._tokenizer.vocabulary_size:
            raise BpeTokenizerError("unknown-token", position=self._tokens, token_id=token)
        text, rest, read = self._decoded(self._pending + self._tokenizer.decode_content([token]))
        self._pending = rest
        self._read += read
        self._tokens += 1
        return text

    def finish(self) -> str:
        """End the text: return U+FFFD for an unfinished character where replacing, else nothing; then start anew.

        Raises:
            BpeTokenizerError (invalid-utf8): the text ends inside a character, and the stream does not replace; its
                `error_length` is None.
        """
        if self._pending and not self._replace:
            raise BpeTokenizerError("invalid-utf8", valid_up_to=self._read, error_length=None)
        text = REPLACEMENT if self._pending else ""
        self._start()
        return text

    def _decoded(self, data: bytes) -> tuple[str, bytes, int]:
        """Return the text of bytes that start a character, what is left unfinished, and how many bytes became text."""
        pieces: list[str] = []
        start = 0
        while True:
            try:
                pieces.append(data[start:].decode("utf-8"))
            except UnicodeDecodeError as error:
                first, end = start + error.start, start + error.end
                pieces.append(data[start:first].decode("utf-8"))
                # an unfinished character may go on with the next token
                if error.reason == "unexpected end of data":
                    return "".join(pieces), data[first:], first
                if not self._replace:
                    raise BpeTokenizerError(
                        "invalid-utf8", valid_up_to=self._read + first, error_length=end - first
                    ) from None
                pieces.append(REPLACEMENT)
                start = end
            else:
                return "".join(pieces), b"", len(data)
