"""Files as a whole: read at once, written so that a reader or a crash never meets half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TypeAlias

from cai_conformance.errors import InputUnreadable
from cai_conformance.interchange.errors import OutputNotWritten

FilePath: TypeAlias = str | os.PathLike[str]


def read_file(path: FilePath) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputUnreadable: the operating system refuses.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise InputUnreadable(os.fspath(path), _words(error)) from error


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


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
