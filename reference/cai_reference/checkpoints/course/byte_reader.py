"""Reading little-endian fields one after the other."""

from __future__ import annotations

import struct

from cai_reference.checkpoints.course.errors import CheckpointTruncated, NameNotUtf8


class ByteReader:
    """A place in some bytes that moves on with every field.

    Every method takes what the field is, for the error.

    Raises:
        CheckpointTruncated: the bytes end inside a field; from every method.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._data) - self._place

    def take(self, length: int, what: str) -> bytes:
        """Return the next bytes."""
        if length > self.left:
            raise CheckpointTruncated(what)
        self._place += length
        return self._data[self._place - length : self._place]

    def integer(self, width: int, what: str) -> int:
        """Return an unsigned integer of so many bytes."""
        return int.from_bytes(self.take(width, what), "little")

    def double(self, what: str) -> float:
        """Return a double."""
        (value,) = struct.unpack("<d", self.take(8, what))
        return float(value)

    def text(self, what: str) -> str:
        """Return a text behind its length.

        Raises:
            NameNotUtf8: it is none.
        """
        data = self.take(self.integer(4, what), what)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise NameNotUtf8(what) from None

    def texts(self, what: str) -> tuple[str, ...]:
        """Return texts behind their number."""
        return tuple(self.text(what) for _ in range(self.integer(4, what)))
