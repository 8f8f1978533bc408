"""From bytes that come a token at a time to what may be shown: up to a text to stop at, in whole characters."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Collection, Sequence
from typing import Final

from cai_conformance.chatting.errors import EmptyStopText

LAYOUT: Final = frozenset("\n\t")
"""Control characters that a text of several lines may keep."""


class StopWatch:
    """Lets bytes pass up to the first of some texts, however these are cut into tokens.

    What could be the start of such a text is held back until it is clear whether it is.

    Attributes:
        stopped: whether one of the texts was found; nothing passes from then on.

    Raises:
        EmptyStopText: one of them is empty.
    """

    def __init__(self, stops: Sequence[bytes]) -> None:
        if not all(stops):
            raise EmptyStopText
        self.stopped = False
        self._stops = tuple(stops)
        self._held = b""

    def push(self, data: bytes) -> bytes:
        """Take the bytes of a token, and return what may be shown now."""
        if self.stopped:
            return b""
        held = self._held + data
        found = [place for place in (held.find(stop) for stop in self._stops) if place >= 0]
        if found:
            self.stopped, self._held = True, b""
            return held[: min(found)]
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> bytes:
        """Return what was held back, since nothing follows."""
        held, self._held = self._held, b""
        return held


class Characters:
    r"""Whole characters from bytes that may end within one; nothing that comes out can disturb a terminal.

    Bytes that are no UTF-8 become U+FFFD. Control, format and surrogate characters are spelt as escapes such as `\x1b`,
    but for those in `kept`.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self._kept = kept
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """Take bytes, and return the characters that they complete."""
        return self._spelt(self._decoder.decode(data))

    def finish(self) -> str:
        """Return U+FFFD for a character that was not completed, or nothing."""
        return self._spelt(self._decoder.decode(b"", final=True))

    def _spelt(self, text: str) -> str:
        return "".join(
            char if char.isprintable() or char in self._kept else char.encode("unicode-escape").decode("ascii")
            for char in text
        )


def _overlap(data: bytes, stop: bytes) -> int:
    """Return how many bytes at the end of `data` are the start of `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(data)), 0, -1) if data.endswith(stop[:size])), 0)
