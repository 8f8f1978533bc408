"""Whether the files in `golden/`, the manifest and the ledger agree.

It says what is wrong where; it repairs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from cai_conformance.goldens import ledger, names
from cai_conformance.goldens.records import FileEntry, LedgerEntry, SuiteEntry, digest
from cai_conformance.goldens.transaction import View


class State(StrEnum):
    """The ways in which a golden can disagree with what was accepted."""

    MODIFIED = "modified"
    MISSING = "missing"
    UNLISTED = "unlisted"
    LEDGER = "ledger"


@dataclass(frozen=True)
class Finding:
    """One disagreement: its kind, the path relative to `golden/`, and a sentence without a full stop."""

    state: State
    path: str
    problem: str


@dataclass(frozen=True)
class Status:
    """What is wrong with one suite; nothing if it agrees. A folder or file that no suite owns has its own status."""

    suite: str
    findings: tuple[Finding, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether files, manifest and ledger agree."""
        return not self.findings

    @property
    def label(self) -> str:
        """`agrees`, or the kinds of disagreement in the order in which `State` lists them."""
        kinds = {finding.state for finding in self.findings}
        return ", ".join(state.value for state in State if state in kinds) or "agrees"


def examine(view: View, manifest: Mapping[str, SuiteEntry], entries: Iterable[LedgerEntry]) -> tuple[Status, ...]:
    """One status a suite or stray name, by name."""
    found: dict[str, list[Finding]] = {suite: [] for suite in manifest}
    for suite, entry in manifest.items():
        found[suite] += disagreements(view, entry)
    listed = {f"{suite}/{file.name}" for suite, entry in manifest.items() for file in entry.files}
    fixed = {names.MANIFEST, names.LEDGER, names.PORTABILITY, names.README}
    for path in sorted(view.files() - listed - fixed):
        owner = path.partition("/")[0]
        found.setdefault(owner, []).append(Finding(State.UNLISTED, path, "the manifest does not list it"))
    for suite, problems in ledger.contradictions(entries, manifest).items():
        found.setdefault(suite, []).extend(Finding(State.LEDGER, names.LEDGER, problem) for problem in problems)
    return tuple(Status(suite, tuple(found[suite])) for suite in sorted(found))


def disagreements(view: View, entry: SuiteEntry) -> tuple[Finding, ...]:
    """The listed files of one suite that are missing or not the accepted ones."""
    found = (disagreement(entry.suite, file, view.read(f"{entry.suite}/{file.name}")) for file in entry.files)
    return tuple(finding for finding in found if finding is not None)


def disagreement(suite: str, listed: FileEntry, data: bytes | None) -> Finding | None:
    """What is wrong with the bytes of one listed file, or None; `data` is None where there is no such file."""
    path = f"{suite}/{listed.name}"
    if data is None:
        return Finding(State.MISSING, path, "the manifest lists it, but it is not there")
    if digest(data) == listed.sha256 and len(data) == listed.size:
        return None
    accepted, present = f"{listed.sha256[:12]}… of {listed.size} bytes", f"{digest(data)[:12]}… of {len(data)}"
    return Finding(State.MODIFIED, path, f"sha256 {accepted} was accepted, and the file has {present}")
