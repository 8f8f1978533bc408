"""What can go wrong with goldens, as data.

::

    GoldenError
    ├── GoldenFolderMissing      no golden/ where it should be
    ├── GoldenMissing            the manifest lists no such suite
    ├── GoldenDisagrees          a file, the manifest and the ledger tell different stories
    ├── GoldenUnreadable         the operating system refused a read
    ├── ManifestDamaged          manifest.json is not what this program writes
    ├── LedgerDamaged            ledger.jsonl is not what this program writes
    ├── ReasonMissing            a change without a reason
    ├── RefusedInCi              a change under continuous integration
    ├── GoldenReadOnly           golden/ or a file in it must not be written
    ├── NameUnusable             a suite or file name outside [a-z0-9_.-]
    ├── CandidateUnusable        a proposed golden that is not complete
    ├── GoldenWriteFailed        the operating system refused a write; nothing changed
    └── GoldenNotPlaced          the change is accepted but its files could not all be moved into place

Nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_conformance.errors import GoldenError


@dataclass(eq=False)
class GoldenFolderMissing(GoldenError):
    """There is no folder of goldens where one was looked for; `source` says who named the place."""

    template: ClassVar[str] = "No golden folder at {path} (named by {source})."
    hint: ClassVar[str] = "Pass the folder explicitly or set CAI_CONFORM_GOLDEN to one that exists."
    path: str
    source: str


@dataclass(eq=False)
class GoldenMissing(GoldenError):
    """The manifest lists no golden for the suite."""

    template: ClassVar[str] = "There is no golden for suite {suite} in {root}."
    hint: ClassVar[str] = 'Record one: cai-conform golden accept {suite} --reason "first recording"'
    suite: str
    root: str


@dataclass(eq=False)
class GoldenDisagrees(GoldenError):
    """A golden file, the manifest and the ledger do not tell the same story."""

    template: ClassVar[str] = "Golden {path}: {problem}."
    hint: ClassVar[str] = "See cai-conform golden status; restore the folder from version control."
    path: str
    problem: str


@dataclass(eq=False)
class GoldenUnreadable(GoldenError):
    """The operating system refused to read a golden file."""

    template: ClassVar[str] = "Golden {path} cannot be read: {cause}."
    hint: ClassVar[str] = "Check the permissions of {path}."
    path: str
    cause: str


@dataclass(eq=False)
class ManifestDamaged(GoldenError):
    """The manifest is not what this program writes."""

    template: ClassVar[str] = "The manifest {path} is damaged: {problem}."
    hint: ClassVar[str] = "Restore {path} from version control; it is never overwritten while damaged."
    path: str
    problem: str


@dataclass(eq=False)
class LedgerDamaged(GoldenError):
    """The ledger is not what this program writes."""

    template: ClassVar[str] = "The ledger {path} is damaged: {problem}."
    hint: ClassVar[str] = "Restore {path} from version control; it is never overwritten while damaged."
    path: str
    problem: str


@dataclass(eq=False)
class ReasonMissing(GoldenError):
    """A golden changes only with a reason."""

    template: ClassVar[str] = "A golden changes only with a reason, and none was given."
    hint: ClassVar[str] = 'Say why: --reason "…" (pytest: --snapshot-reason "…").'


@dataclass(eq=False)
class RefusedInCi(GoldenError):
    """Continuous integration compares goldens and never writes them; `value` is that of the variable CI."""

    template: ClassVar[str] = "CI never writes a golden (the environment variable CI is {value!r})."
    hint: ClassVar[str] = "Accept the change on a workstation and commit it."
    value: str


@dataclass(eq=False)
class GoldenReadOnly(GoldenError):
    """The folder of goldens, or a file in it, must not be written."""

    template: ClassVar[str] = "Golden {path} cannot be replaced: {problem}."
    hint: ClassVar[str] = "Work on a writable checkout, or point CAI_CONFORM_GOLDEN at a writable copy."
    path: str
    problem: str


@dataclass(eq=False)
class NameUnusable(GoldenError):
    """A suite or file name that would not be the same name on every file system; `kind` is suite or file."""

    template: ClassVar[str] = "The {kind} name {name!r} is not made of [a-z0-9_.-], or starts or ends with a dot."
    hint: ClassVar[str] = "cai-conform list names the suites."
    kind: str
    name: str


@dataclass(eq=False)
class CandidateUnusable(GoldenError):
    """A proposed golden is not complete."""

    template: ClassVar[str] = "The proposed golden of suite {suite} cannot be accepted: {problem}."
    suite: str
    problem: str


@dataclass(eq=False)
class GoldenWriteFailed(GoldenError):
    """The operating system refused a write before the commit point."""

    template: ClassVar[str] = "Nothing in {root} was changed, because it could not be written: {cause}."
    hint: ClassVar[str] = "Free some space or repair the permissions, then repeat the command."
    root: str
    cause: str


@dataclass(eq=False)
class GoldenNotPlaced(GoldenError):
    """The operating system refused a move after the commit point: the change holds, its files wait in `.accepted`."""

    template: ClassVar[str] = "The change is accepted, but its files wait in {root}/.accepted: {cause}."
    hint: ClassVar[str] = "Remove the obstacle, then run cai-conform golden status, which moves them into place."
    root: str
    cause: str
