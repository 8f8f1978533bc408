"""What accepting new files would change, as data to show to a person before the reason is asked for.

Lines are counted here, records are not read: a difference aligned by record is the business of the judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cai_conformance.goldens import names
from cai_conformance.goldens.errors import GoldenMissing
from cai_conformance.goldens.records import Golden, digest
from cai_conformance.goldens.store import GoldenStore


@dataclass(frozen=True)
class LineCounts:
    """How many lines of a trace appear and disappear; a line that only moves is neither, and then `moved` is true."""

    added: int
    removed: int
    moved: bool = False


@dataclass(frozen=True)
class FileReview:
    """One file that would change: SHA-256 and size in bytes before (None where it is new) and after.

    `lines` is there for the trace only.
    """

    name: str
    sha256_before: str | None
    sha256_after: str
    size_before: int | None
    size_after: int
    lines: LineCounts | None = None


@dataclass(frozen=True)
class Review:
    """What would change in one golden, files by name, and the names of the files that stay as they are."""

    suite: str
    is_new: bool
    changed: tuple[FileReview, ...]
    unchanged: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether accepting would change any file."""
        return bool(self.changed)


def review(store: GoldenStore, suite: str, new_files: Mapping[str, bytes]) -> Review:
    """Compare new files with the golden of a suite, which may not exist yet.

    Raises:
        NameUnusable: the suite or a file is named outside `[a-z0-9_.-]`.
        GoldenError: the present golden cannot be read, as for `GoldenStore.read`.
    """
    for name in new_files:
        names.check_file(name)
    try:
        present: Golden | None = store.read(suite)
    except GoldenMissing:
        present = None
    before = {} if present is None else dict(present.files)
    changed = tuple(
        _file(name, before.get(name), new_files[name])
        for name in sorted(new_files)
        if before.get(name) != new_files[name]
    )
    unchanged = sorted({*before, *new_files} - {file.name for file in changed})
    return Review(suite, present is None, changed, tuple(unchanged))


def _file(name: str, before: bytes | None, after: bytes) -> FileReview:
    return FileReview(
        name=name,
        sha256_before=None if before is None else digest(before),
        sha256_after=digest(after),
        size_before=None if before is None else len(before),
        size_after=len(after),
        lines=_lines(before or b"", after) if name == names.TRACE else None,
    )


def _lines(before: bytes, after: bytes) -> LineCounts:
    old, new = Counter(before.split(b"\n")), Counter(after.split(b"\n"))
    # What follows the last LF is a line only if there is something.
    old[b""] -= before.endswith(b"\n") or not before
    new[b""] -= after.endswith(b"\n") or not after
    added, removed = (new - old).total(), (old - new).total()
    return LineCounts(added, removed, moved=not added and not removed)
