"""Changing several files at one commit point, so that a reader or a crash never meets half a change.

All new files are written into `.pending-<process>` and flushed to the disk; one rename to `.accepted` is the commit.
Then each file is moved into place and the empty folder removed. Whoever comes next after a crash finishes an
`.accepted`, and the next writer removes a `.pending-…`. Every step can be repeated. What the files mean is no business
of this module.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import locks
from cai_conformance.goldens.errors import GoldenNotPlaced, GoldenUnreadable, GoldenWriteFailed

ACCEPTED: Final = ".accepted"
PENDING: Final = ".pending-"

Value = TypeVar("Value")


@dataclass(frozen=True)
class View:
    """The store as committed: a file that waits in `.accepted` hides the one that it will replace."""

    root: Path

    def read(self, name: str) -> bytes | None:
        """The bytes of a file named relative to the store, or None where there is no such file.

        Raises:
            GoldenUnreadable: the operating system refuses.
        """
        for path in (self.root / ACCEPTED / name, self.root / name):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            except OSError as error:
                raise GoldenUnreadable(str(path), error.strerror or str(error)) from error
        return None

    def files(self) -> frozenset[str]:
        """The names of all files, relative to the store and with slashes, without what starts with a dot at its top."""
        found: set[str] = set()
        for top in (self.root, self.root / ACCEPTED):
            for folder, folders, files in os.walk(top):
                place = Path(folder).relative_to(top)
                if place == Path():
                    # Lock, pending and accepted files, and those of version control and file managers.
                    folders[:] = [name for name in folders if not name.startswith(".")]
                    files = [name for name in files if not name.startswith(".")]
                found.update((place / name).as_posix() for name in files)
        return frozenset(found)


def may_write(root: Path) -> bool:
    """Whether files in the folder may be replaced; a folder without any write bit is off limits to root as well."""
    if not root.stat().st_mode & 0o222 or not os.access(root, os.W_OK | os.X_OK):
        return False
    return not (hasattr(os, "statvfs") and os.statvfs(root).f_flag & os.ST_RDONLY)


def reading(root: Path, look: Callable[[View], Value]) -> Value:
    """What `look` returns on a state of the store between two commits; it may be called more than once.

    An unfinished move of accepted files is finished first where the folder may be written; where not, the view looks
    through it.

    Raises:
        GoldenError: what `look` raises.
    """
    view = View(root)
    through = False
    while True:
        with locks.shared(root) as guarded:
            if through or not (root / ACCEPTED).is_dir():
                try:
                    value = look(view)
                except (GoldenError, OSError):
                    if guarded or not (root / locks.LOCK).exists():
                        raise
                else:
                    if guarded or not (root / locks.LOCK).exists():
                        return value
                # The first writer ever came while we looked without a lock: look again.
                continue
        through = not _try_to_finish(root)


@contextmanager
def writing(root: Path) -> Iterator[View]:
    """Hold the store alone, with what earlier writers left behind finished or removed.

    Raises:
        GoldenNotPlaced: the files of an earlier change cannot be moved into place.
        GoldenWriteFailed: the store cannot be locked, or a stale folder not removed.
    """
    with _locked(root):
        try:
            if (root / ACCEPTED).is_dir():
                _place(root)
        except OSError as error:
            raise GoldenNotPlaced(str(root), str(error)) from error
        try:
            # Their writers held the lock that we hold now, so they are dead.
            for stale in sorted(root.glob(f"{PENDING}*")):
                shutil.rmtree(stale)
        except OSError as error:
            raise GoldenWriteFailed(str(root), str(error)) from error
        yield View(root)


def commit(root: Path, files: Mapping[str, bytes]) -> None:
    """Replace or add files, all or none; the caller is inside `writing`.

    Args:
        root: the store.
        files: contents by name relative to the store, at most one folder deep.

    Raises:
        GoldenWriteFailed: nothing was changed.
        GoldenNotPlaced: the change holds, but not every file is in place yet.
    """
    stage = root / f"{PENDING}{os.getpid()}"
    try:
        stage.mkdir()
        for parent in sorted({Path(name).parent for name in files} - {Path()}):
            (stage / parent).mkdir()
        for name in sorted(files):
            _write(stage / name, files[name])
        for folder in _folders(stage):
            _flush_folder(stage / folder)
        stage.rename(root / ACCEPTED)
    except BaseException as error:
        shutil.rmtree(stage, ignore_errors=True)
        if isinstance(error, OSError):
            raise GoldenWriteFailed(str(root), str(error)) from error
        raise
    try:
        _flush_folder(root)
        _place(root)
    except OSError as error:
        raise GoldenNotPlaced(str(root), str(error)) from error


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.exclusive(root))
        except OSError as error:
            raise GoldenWriteFailed(str(root), str(error)) from error
        yield


def _try_to_finish(root: Path) -> bool:
    """Move accepted files into place for a reader; False where the reader has to look through instead."""
    if not may_write(root):
        return False
    try:
        with locks.exclusive(root):
            if (root / ACCEPTED).is_dir():
                _place(root)
    except OSError:
        return False
    return True


def _place(root: Path) -> None:
    """Move every file of `.accepted` to where it belongs, then remove the folder; can be repeated from any point."""
    accepted = root / ACCEPTED
    folders = _folders(accepted)
    for folder in folders:
        target = root / folder
        if not target.is_dir():
            target.mkdir()
        for source in sorted(path for path in (accepted / folder).iterdir() if not path.is_dir()):
            source.replace(target / source.name)
    # The moves must be on the disk before the folder goes that would repeat them.
    for folder in folders:
        _flush_folder(root / folder)
    for folder in folders:
        (accepted / folder).rmdir()
    _flush_folder(root)


def _folders(top: Path) -> list[Path]:
    """The subfolders of a folder relative to it, and last the folder itself."""
    return [*sorted(path.relative_to(top) for path in top.iterdir() if path.is_dir()), Path()]


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(path: Path) -> None:
    if os.name == "nt":
        return  # Windows opens no folders, and its renames are journaled.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
