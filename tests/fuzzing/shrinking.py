"""Making an input small that is known to be a finding, so that a person can see what is the matter with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

TRIES: Final = 1500
SIMPLE: Final = b"0a"
"""What a byte that does not matter becomes."""


def shrunk(data: bytes, fails: Callable[[bytes], bool], tries: int = TRIES) -> bytes:
    """Return a smaller input that still fails: pieces are left out, ever shorter ones, then bytes made plain.

    Args:
        data: an input that fails.
        fails: tells whether another one does, in the same way.
        tries: how often it may be asked.
    """
    left = tries
    size = len(data)
    while size and left > 0:
        place = 0
        while place < len(data) and left > 0:
            shorter = data[:place] + data[place + size :]
            left -= 1
            if fails(shorter):
                data = shorter
            else:
                place += size
        size //= 2
    for place in range(min(len(data), 256)):
        for plain in SIMPLE:
            if data[place] in SIMPLE or left <= 0:
                break
            changed = data[:place] + bytes([plain]) + data[place + 1 :]
            left -= 1
            if fails(changed):
                data = changed
                break
    return data
