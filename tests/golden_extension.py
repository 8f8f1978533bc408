"""A syrupy extension that keeps its snapshots in `golden/`, behind the golden store.

A snapshot is named after a suite, its value is a `Candidate`, and it lies at `golden/<suite>/trace.txt`. Reading checks
the manifest; `--snapshot-update` accepts the candidate with the reason of `--snapshot-reason`, one at a time,
so that workers of pytest-xdist cannot lose each other's changes. A golden is never deleted, used or not: syrupy is
shown none to discover. Which suites there are, and how a candidate is made, is for the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.records import TRACE, Candidate, Golden, check_suite
from cai_conformance.fixtures.goldens.store import GoldenStore

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import PropertyFilter, PropertyMatcher, SerializedData, SnapshotIndex


class ProposedTrace(str):
    """The text of a candidate's trace, with the candidate."""

    __slots__ = ("candidate",)
    candidate: Candidate

    def __new__(cls, candidate: Candidate) -> Self:
        """The text of `trace.txt`; bytes that are not UTF-8 survive as surrogates."""
        text = super().__new__(cls, candidate.files.get(TRACE, b"").decode("utf-8", "surrogateescape"))
        text.candidate = candidate
        return text


class AcceptedTrace(str):
    """The text of a golden trace, with the golden."""

    __slots__ = ("golden",)
    golden: Golden

    def __new__(cls, golden: Golden) -> Self:
        """The text of `trace.txt`; bytes that are not UTF-8 survive as surrogates."""
        text = super().__new__(cls, golden.trace.decode("utf-8", "surrogateescape"))
        text.golden = golden
        return text


class GoldenExtension(SingleFileSnapshotExtension):
    """Snapshots in the folder `root`, changed with `reason`; see `golden_extension`, which binds the two."""

    root: ClassVar[Path]
    reason: ClassVar[str] = ""
    file_extension = "txt"
    _write_mode = WriteMode.TEXT

    def serialize(
        self,
        data: object,
        *,
        exclude: PropertyFilter | None = None,
        include: PropertyFilter | None = None,
        matcher: PropertyMatcher | None = None,
    ) -> SerializedData:
        """Take a `Candidate`; nothing else can become a golden."""
        if not isinstance(data, Candidate):
            raise TypeError(f"a golden is compared with a Candidate, not with a {type(data).__name__}")
        return ProposedTrace(data)

    def matches(self, *, serialized_data: object, snapshot_data: object) -> bool:
        """Whether every named file and every field of the manifest is as accepted."""
        if not isinstance(serialized_data, ProposedTrace) or not isinstance(snapshot_data, AcceptedTrace):
            return False
        accepted = snapshot_data.golden.entry
        return serialized_data.candidate.entry_over(accepted) == accepted

    def diff_lines(self, serialized_data: SerializedData, snapshot_data: SerializedData) -> Iterator[str]:
        """What the manifest would say differently, then the lines of the trace that differ."""
        if isinstance(serialized_data, ProposedTrace) and isinstance(snapshot_data, AcceptedTrace):
            yield from _manifest_lines(serialized_data.candidate, snapshot_data.golden)
        if serialized_data != snapshot_data:
            yield from super().diff_lines(serialized_data, snapshot_data)

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """`golden/<suite>/trace.txt`, where the suite is the name that the snapshot was given."""
        if not isinstance(index, str):
            raise ValueError('a golden is named after its suite: golden(name="course.ngram")')
        return str(cls.root / check_suite(index) / TRACE)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """The folder of goldens."""
        return str(cls.root)

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        """The folder of goldens."""
        return str(cls.root)

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """A golden belongs to whichever test names its suite."""
        return True

    def is_snapshot_location(self, *, location: str) -> bool:
        """Claim no file, so that none is ever unused."""
        return False

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        """Discover nothing: what syrupy discovers and no test uses, it deletes."""
        return SnapshotCollections()

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """Delete nothing: a golden is retired by hand, with a review."""

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> SerializedData | None:
        """The verified golden, or None where the manifest lists none."""
        try:
            return AcceptedTrace(GoldenStore(self.root).read(Path(snapshot_location).parent.name))
        except GoldenError as error:
            if error.code != "golden-missing":
                raise
            return None

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        """Accept the candidate, with files, ledger and manifest."""
        suite = Path(snapshot_collection.location).parent.name
        data = next(iter(snapshot_collection)).data
        if not isinstance(data, ProposedTrace):
            raise TypeError("a golden is made from a Candidate only")
        if data.candidate.suite != suite:
            raise GoldenError(
                "candidate-unusable", suite=data.candidate.suite, problem=f"the snapshot is named after suite {suite}"
            )
        GoldenStore(cls.root).accept_all([data.candidate], reason=cls.reason)


@cache
def golden_extension(root: Path, reason: str) -> type[GoldenExtension]:
    """The extension for one folder of goldens and one reason; the same class for the same arguments."""
    return type("BoundGoldenExtension", (GoldenExtension,), {"root": root, "reason": reason})


def _manifest_lines(candidate: Candidate, golden: Golden) -> Iterator[str]:
    accepted, proposed = golden.entry, candidate.entry_over(golden.entry)
    for field in ("suite", "suite_version", "arithmetic", "command", "records"):
        before, after = getattr(accepted, field), getattr(proposed, field)
        if before != after:
            yield f"{field}: {before} was accepted, {after} is proposed"
    for file in proposed.files:
        listed = accepted.file(file.name)
        if listed is None or listed.sha256 != file.sha256:
            before = "no such file" if listed is None else f"sha256 {listed.sha256}"
            yield f"{file.name}: {before} was accepted, sha256 {file.sha256} is proposed"
