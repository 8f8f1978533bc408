"""One writer or many readers: a lock on `golden/.lock` that the operating system releases when its holder dies.

The lock file is made by the first writer and never removed. A reader makes none, so that reading leaves no trace in an
installed package. On Windows readers exclude each other too, which is slower and just as safe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = ".lock"

if sys.platform == "win32":  # pragma: no cover - measured where there is no Windows
    import msvcrt

    def _acquire(descriptor: int, *, alone: bool) -> None:
        # LK_LOCK gives up after ten tries, one a second.
        while True:
            os.lseek(descriptor, 0, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError:
                continue
            return

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(descriptor: int, *, alone: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def _release(descriptor: int) -> None:
        # Said aloud, because a forked child would otherwise keep the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Hold the store alone; waits for readers and writers to leave.

    Raises:
        OSError: the lock file cannot be made or locked.
    """
    descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _acquire(descriptor, alone=True)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def shared(root: Path) -> Iterator[bool]:
    """Keep writers away while reading; the value says whether there is a lock file at all.

    False means that no writer had been here when the reader came. It may look, and must look again if there is a lock
    file afterwards. Where there is one that must not be opened, there is nothing to wait for, and the value is True.
    """
    try:
        descriptor = os.open(root / LOCK, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    except PermissionError:
        yield True
        return
    try:
        _acquire(descriptor, alone=False)
        try:
            yield True
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)
