"""The data of the golden store: a golden, a candidate for one, and what manifest and ledger say about them.

Data only: how it looks on disk is in `manifest` and `ledger`, who writes it in `store`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cai_conformance.goldens import names
from cai_conformance.goldens.errors import CandidateUnusable


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says about one file.

    `name` is the name inside the suite folder, `size` counts bytes, and `records` is the record count of a trace and
    None for any other file.
    """

    name: str
    sha256: str
    size: int
    records: int | None = None


@dataclass(frozen=True)
class SuiteEntry:
    """What the manifest says about one golden: what it was recorded for, by which command, and its files by name."""

    suite: str
    suite_version: str
    arithmetic: str
    command: str
    files: tuple[FileEntry, ...]

    def file(self, name: str) -> FileEntry | None:
        """The entry of one file, or None where it is not listed."""
        return next((entry for entry in self.files if entry.name == name), None)

    @property
    def records(self) -> int:
        """How many records the trace has; 0 where the golden lists no trace."""
        trace = self.file(names.TRACE)
        return 0 if trace is None or trace.records is None else trace.records


@dataclass(frozen=True)
class FileChange:
    """SHA-256 of one file before and after an accepted change; `before` is None where the file is new."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True)
class LedgerEntry:
    """One accepted change of one golden.

    `sequence` counts from 1 over all suites. `files` holds the files that were written, by name; it is empty where only
    the version, arithmetic, command or record count changed. A file whose two hashes are equal was put back as accepted
    before.
    """

    sequence: int
    suite: str
    suite_version: str
    reason: str
    files: tuple[FileChange, ...]


@dataclass(frozen=True)
class Golden:
    """A golden whose files agree with the manifest: file contents by name, and the manifest's entry."""

    suite: str
    files: Mapping[str, bytes]
    entry: SuiteEntry

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))

    @property
    def trace(self) -> bytes:
        """The bytes of `trace.txt`."""
        return self.files[names.TRACE]


@dataclass(frozen=True)
class Candidate:
    """A proposed golden: the files to replace or add by name, and what the manifest is to say.

    Files of the present golden that are not named stay. `records` is the record count of the trace, `command` the
    command line that reproduces it.

    Raises:
        NameUnusable: the suite or a file is named outside `[a-z0-9_.-]`.
        CandidateUnusable: a text field is empty or not one line, or the record count is negative.
    """

    suite: str
    files: Mapping[str, bytes] = field(repr=False)
    suite_version: str
    arithmetic: str
    command: str
    records: int

    def __post_init__(self) -> None:
        names.check_suite(self.suite)
        for name in self.files:
            names.check_file(name)
        for label in ("suite_version", "arithmetic", "command"):
            text: str = getattr(self, label)
            if not text.strip() or not text.isprintable():
                raise CandidateUnusable(self.suite, f"its {label} is {text!r}, not one line of text")
        if self.records < 0:
            raise CandidateUnusable(self.suite, f"it counts {self.records} records")
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))

    def entry_over(self, old: SuiteEntry | None) -> SuiteEntry:
        """What the manifest says once this candidate stands on top of the present golden.

        Raises:
            CandidateUnusable: there would be no trace.
        """
        kept = {} if old is None else {entry.name: entry for entry in old.files}
        fresh = {name: FileEntry(name, digest(data), len(data)) for name, data in self.files.items()}
        merged = kept | fresh
        if names.TRACE not in merged:
            raise CandidateUnusable(self.suite, f"it has no {names.TRACE}")
        trace = merged[names.TRACE]
        merged[names.TRACE] = FileEntry(trace.name, trace.sha256, trace.size, self.records)
        files = tuple(merged[name] for name in sorted(merged))
        return SuiteEntry(self.suite, self.suite_version, self.arithmetic, self.command, files)
