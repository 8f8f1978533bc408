"""The one door to `golden/`: reading verified goldens, saying what disagrees, accepting changes.

Traces are bytes here. What a record is, and whether a new trace is any good, is for the judges and for the person who
gives the reason.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cai_conformance.goldens import ledger, manifest, names, refusals, transaction
from cai_conformance.goldens.errors import (
    CandidateUnusable,
    GoldenDisagrees,
    GoldenFolderMissing,
    GoldenMissing,
    LedgerDamaged,
    ManifestDamaged,
)
from cai_conformance.goldens.records import Candidate, FileChange, Golden, LedgerEntry, SuiteEntry, digest
from cai_conformance.goldens.status import Status, disagreement, examine
from cai_conformance.goldens.transaction import View


class GoldenStore:
    """The goldens in one folder.

    Any number of stores, in any number of processes, may look at the same folder: each call sees all of a change or
    none of it.

    Raises:
        GoldenFolderMissing: `root` is not a folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).absolute()
        if not self._root.is_dir():
            raise GoldenFolderMissing(str(self._root), "the caller")

    @property
    def root(self) -> Path:
        """The absolute path of the folder."""
        return self._root

    def suites(self) -> tuple[str, ...]:
        """The names of the suites that have a golden, in their order.

        Raises:
            ManifestDamaged: the manifest cannot be used.
        """
        return tuple(transaction.reading(self._root, self._manifest))

    def read(self, suite: str) -> Golden:
        """The golden of a suite, each file checked against the manifest.

        Raises:
            NameUnusable: no suite can have this name.
            ManifestDamaged: the manifest cannot be used.
            GoldenMissing: the manifest lists no such suite.
            GoldenDisagrees: a file is missing or is not the one that was accepted.
            GoldenUnreadable: the operating system refuses.
        """
        names.check_suite(suite)
        return transaction.reading(self._root, lambda view: self._golden(view, suite))

    def entry(self, suite: str) -> SuiteEntry | None:
        """What the manifest says about a suite, or None; no file of the golden is read.

        Raises:
            ManifestDamaged: the manifest cannot be used.
        """
        return transaction.reading(self._root, self._manifest).get(suite)

    def history(self, suite: str | None = None) -> tuple[LedgerEntry, ...]:
        """The accepted changes, of one suite or of all, oldest first.

        Raises:
            LedgerDamaged: the ledger cannot be used.
        """
        entries = transaction.reading(self._root, lambda view: self._ledger(view)[1])
        return tuple(entry for entry in entries if suite in (None, entry.suite))

    def status(self) -> tuple[Status, ...]:
        """What agrees and what does not: one status a suite, and one for each stray file or folder, by name.

        Raises:
            ManifestDamaged: the manifest cannot be used.
            LedgerDamaged: the ledger cannot be used.
            GoldenUnreadable: the operating system refuses.
        """
        return transaction.reading(self._root, lambda view: examine(view, self._manifest(view), self._ledger(view)[1]))

    def accept(
        self,
        suite: str,
        files: Mapping[str, bytes],
        *,
        reason: str,
        suite_version: str,
        arithmetic: str,
        command: str,
        records: int,
    ) -> LedgerEntry | None:
        """Make these files the golden of one suite; None, and nothing written, if they already are.

        Args:
            suite: the name of the suite.
            files: contents by file name; files of the present golden that are not named stay.
            reason: why the golden changes.
            suite_version: the version of the suite that recorded it.
            arithmetic: the arithmetic that it was recorded in, such as `strict/1`.
            command: the command line that reproduces it.
            records: the record count of the trace.

        Raises:
            GoldenError: as for `accept_all`.
        """
        candidate = Candidate(suite, files, suite_version, arithmetic, command, records)
        accepted = self.accept_all([candidate], reason=reason)
        return accepted[0] if accepted else None

    def accept_all(self, candidates: Sequence[Candidate], *, reason: str) -> tuple[LedgerEntry, ...]:
        """Make all candidates the goldens of their suites at one commit point; one ledger line a suite that changes.

        A file that was changed behind the back of the manifest is put back or replaced, and counts as a change.

        Raises:
            ReasonMissing: no reason is given.
            RefusedInCi: the environment variable `CI` is set.
            GoldenReadOnly: the folder or a file to be replaced must not be written.
            CandidateUnusable: a golden without a trace, or two candidates for one suite.
            ManifestDamaged, LedgerDamaged, GoldenDisagrees: there is nothing sound to build on.
            GoldenWriteFailed: the disk is full or broken; nothing was changed.
            GoldenNotPlaced: the change holds, but the files could not all be moved into place.
        """
        reason = refusals.check_reason(reason)
        refusals.check_not_ci()
        refusals.check_folder(self._root)
        for place, candidate in enumerate(candidates):
            if any(candidate.suite == earlier.suite for earlier in candidates[:place]):
                raise CandidateUnusable(candidate.suite, "it is proposed twice")
        with transaction.writing(self._root) as view:
            present = self._manifest(view)
            ledger_bytes, history = self._ledger(view)
            for suite, problems in ledger.contradictions(history, present).items():
                raise GoldenDisagrees(suite, problems[0])
            entries, files, accepted = dict(present), dict[str, bytes](), list[LedgerEntry]()
            for candidate in candidates:
                old = present.get(candidate.suite)
                entry, changes = candidate.entry_over(old), _changes(view, old, candidate)
                if not changes and entry == old:
                    continue
                entries[candidate.suite] = entry
                files |= {f"{candidate.suite}/{change.name}": candidate.files[change.name] for change in changes}
                sequence = len(history) + len(accepted) + 1
                accepted.append(LedgerEntry(sequence, candidate.suite, candidate.suite_version, reason, changes))
            if accepted:
                files[names.MANIFEST] = manifest.write(entries.values())
                files[names.LEDGER] = ledger_bytes + ledger.write(accepted)
                refusals.check_targets(self._root, files)
                transaction.commit(self._root, files)
        return tuple(accepted)

    def _golden(self, view: View, suite: str) -> Golden:
        entry = self._manifest(view).get(suite)
        if entry is None:
            raise GoldenMissing(suite, str(self._root))
        files = {}
        for file in entry.files:
            data = view.read(f"{suite}/{file.name}")
            finding = disagreement(suite, file, data)
            if finding is not None:
                raise GoldenDisagrees(finding.path, finding.problem)
            files[file.name] = data or b""
        return Golden(suite, files, entry)

    def _manifest(self, view: View) -> dict[str, SuiteEntry]:
        data, path = view.read(names.MANIFEST), str(self._root / names.MANIFEST)
        if data is not None:
            return manifest.read(data, path)
        if view.read(names.LEDGER):
            raise ManifestDamaged(path, "it is not there, although the ledger has accepted changes")
        return {}

    def _ledger(self, view: View) -> tuple[bytes, tuple[LedgerEntry, ...]]:
        data, path = view.read(names.LEDGER), str(self._root / names.LEDGER)
        if data is not None:
            return data, ledger.read(data, path)
        if self._manifest(view):
            raise LedgerDamaged(path, "it is not there, although the manifest lists goldens")
        return b"", ()


def _changes(view: View, old: SuiteEntry | None, candidate: Candidate) -> tuple[FileChange, ...]:
    """The candidate's files that differ from the manifest or from what is really there, by name."""
    changes = []
    for name in sorted(candidate.files):
        data = candidate.files[name]
        listed = None if old is None else old.file(name)
        before, after = None if listed is None else listed.sha256, digest(data)
        if before != after or view.read(f"{candidate.suite}/{name}") != data:
            changes.append(FileChange(name, before, after))
    return tuple(changes)
