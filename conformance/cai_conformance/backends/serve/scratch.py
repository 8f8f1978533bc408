"""Files by which tensors travel: all stand below one folder, and are read whatever else is put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from cai_conformance.backends.serve.errors import ProtocolViolation

# A pipe must not block the one who opens it, and a link must not lead out; where a system has no such flag, the checks
# of the path stand alone.
_CAREFULLY: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def read_slice(scratch: Path, name: str, offset: int, size: int) -> bytes:
    """Return `size` bytes of a file below a folder, from `offset` on.

    Raises:
        ProtocolViolation: the name leads out of the folder or through a link, is that of no plain file, or the file
            ends earlier.
    """
    what = f"the file {name!r}"
    inner = PurePosixPath(name)
    if inner.is_absolute() or "\0" in name or "\\" in name or not inner.parts or ".." in inner.parts:
        raise ProtocolViolation(what, "is no name below the folder 'scratch'")
    path = scratch.joinpath(*inner.parts)
    try:
        # The folder itself may stand behind a link; nothing below it may.
        if path.resolve(strict=True) != scratch.resolve().joinpath(*inner.parts):
            raise ProtocolViolation(what, "is reached through a link")
        descriptor = os.open(path, _CAREFULLY)
    except (OSError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ProtocolViolation(what, f"cannot be read: {reason}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ProtocolViolation(what, "is no plain file")
        if offset + size > status.st_size:
            raise ProtocolViolation(what, f"has {status.st_size} bytes; {size} from {offset} on were announced")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            file.seek(offset)
            data = file.read(size)
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise ProtocolViolation(what, f"was cut while it was read: {len(data)} of {size} bytes")
    return data


class ScratchWriter:
    """The side that writes: one file for the large tensors of an answer, gone when the next answer begins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""
        self._count = 0

    def begin(self) -> None:
        """Begin an answer: a new message has come, so the last answer has been read."""
        if self._name:
            (self._folder / self._name).unlink(missing_ok=True)
        self._name = ""

    def add(self, data: bytes) -> tuple[str, int]:
        """Append the bytes of a tensor; return the name of the file and where they begin."""
        if not self._name:
            self._count += 1
            self._name = f"tensors-{self._count}.bin"
        with (self._folder / self._name).open("ab") as file:
            offset = file.tell()
            file.write(data)
        return self._name, offset
