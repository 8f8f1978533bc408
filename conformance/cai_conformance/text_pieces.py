"""How the pieces of a streamed text stand in an answer: one for each id and one for the end, hex, blanks between them.

ids of é, ended inside €:   - c3a9 - efbfbd
the same, where the end is refused:   - c3a9 - refused
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

NOTHING: Final = "-"
"""A piece that is empty."""
REFUSED: Final = "refused"
"""The last piece of a backend that refuses text which ends inside a character."""
REPLACEMENT: Final = "\ufffd".encode()
"""The last piece of a backend that replaces what is left of a character."""

_HEX: Final = re.compile("(?:[0-9a-f]{2})+")


def spell_pieces(pieces: Iterable[str]) -> str:
    """Return pieces of text as they stand in an answer."""
    return " ".join(piece.encode("utf-8").hex() or NOTHING for piece in pieces)


def read_piece(spelled: str) -> bytes | None:
    """Return the bytes of one piece; None where this spells none."""
    if spelled == NOTHING:
        return b""
    return bytes.fromhex(spelled) if _HEX.fullmatch(spelled) else None
