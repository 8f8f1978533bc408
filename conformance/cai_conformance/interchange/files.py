"""Files as a whole: read at once, written so that a reader or a crash never meets half of one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

from cai_conformance.errors import InputUnreadable
from cai_conformance.interchange.errors import OutputNotWritten

FilePath: TypeAlias = str | os.PathLike[str]

FROM_A_DEVICE: Final = 1 << 20
"""So many bytes are read from a device at most: some, such as /dev/zero, have no end."""


def read_file(path: FilePath) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputUnreadable: the operating system refuses, or it is a device that does not end.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
                return file.read()
            data = file.read(FROM_A_DEVICE + 1)
    except (OSError, ValueError) as error:
        raise InputUnreadable(os.fspath(path), _words(error)) from error
    if len(data) > FROM_A_DEVICE:
        raise InputUnreadable(os.fspath(path), "it is a device, and does not end")
    return data


def check_output(path: FilePath, *, force: bool, source: FilePath | None = None) -> None:
    """Refuse, before any work, a file that is there already, one that is being read, and a folder that is not.

    Args:
        path: where something is to be written.
        force: whether a file that is there already may be replaced.
        source: what it is made of, which is never replaced; None if that is no file.

    Raises:
        OutputNotWritten: for all three.
    """
    if os.path.lexists(path) and not force:
        raise OutputNotWritten(os.fspath(path), "it exists already; --force replaces it")
    if source is not None and _same(path, source):
        raise OutputNotWritten(os.fspath(path), "it is the file that is read, which would be lost")
    if not Path(path).absolute().parent.is_dir():
        raise OutputNotWritten(os.fspath(path), "there is no such folder")


def write_file(path: FilePath, data: bytes) -> None:
    """Write a file beside its place and move it there in one step; an older file is replaced, or left as it was.

    A link is followed, so that it goes on pointing at the file.

    Raises:
        OutputNotWritten: the operating system refuses, or there is something else than a file in that place.
    """
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            raise OSError("there is something else than a file")
        # Inside a folder of its own, the file gets the permissions of any new file, and a name that nobody else has.
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=target.parent) as folder:
            part = Path(folder) / "part"
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
    except (OSError, ValueError, RuntimeError) as error:
        raise OutputNotWritten(os.fspath(path), _words(error)) from error


def _same(path: FilePath, other: FilePath) -> bool:
    """Whether two paths lead to one file."""
    try:
        return Path(path).samefile(other)
    except (OSError, ValueError):
        return False


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
