"""The goldens as syrupy snapshots: real pytest runs over a store of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from syrupy.data import Snapshot, SnapshotCollection

from cai_conformance.goldens import GoldenStore
from cai_conformance.goldens.errors import CandidateUnusable, ReasonMissing
from golden_extension import AcceptedTrace, GoldenExtension, ProposedTrace, golden_extension
from support_golden_store import child_environment, make

TESTS = Path(__file__).parents[2]
MODULE = """
import json
import os
import signal
from pathlib import Path

import pytest
from cai_conformance.goldens import Candidate

TEXTS = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("suite", sorted(TEXTS))
def test_golden(suite, golden, monkeypatch):
    files = {"trace.txt": f"LOSS|value={TEXTS[suite]}\\r\\n".encode()}
    if "KILL" in os.environ:
        monkeypatch.setattr(os, "replace", lambda *paths: os.kill(os.getpid(), signal.SIGKILL))
    assert golden(name=suite) == Candidate(suite, files, "1", "strict/1", f"cai-conform trace {suite}", 1)
"""


@dataclass(frozen=True)
class Project:
    """A folder with our conftest and one test a suite, and the store that it compares with."""

    folder: Path
    store: GoldenStore

    def record(self, **texts: str) -> None:
        """Choose the suites (with `_` for the dot) and what their traces say."""
        named = {name.replace("_", "."): text for name, text in texts.items()}
        (self.folder / "texts.json").write_text(json.dumps(named), encoding="utf-8")

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run pytest there, as if no other pytest were around."""
        environment = child_environment(CAI_CONFORM_GOLDEN=str(self.store.root), **variables)
        kept = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(command, cwd=self.folder, env=kept, capture_output=True, text=True, check=False)

    def told(self) -> dict[str, bytes]:
        """The golden traces by suite, after a look that all is sound."""
        assert [] == [status for status in self.store.status() if not status.agrees]
        return {suite: self.store.read(suite).trace for suite in self.store.suites()}


@pytest.fixture
def project(tmp_path: Path, store: GoldenStore) -> Project:
    """A project with a golden for each of two suites, and a third golden that no test uses."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("conftest.py", "golden_extension.py"):
        shutil.copy(TESTS / name, folder)
    (folder / "test_goldens.py").write_text(MODULE, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    store.accept_all([make(suite, text="one\r") for suite in ("s.one", "s.two", "s.unused")], reason="first")
    return Project(folder, store)


ONE, TWO = b"LOSS|value=one\r\n", b"LOSS|value=two\r\n"


@pytest.mark.exhaustive
def test_update_with_a_reason_under_two_workers(project: Project) -> None:
    """Changed and new goldens land with manifest and ledger; an unused one is neither reported nor deleted."""
    project.record(s_one="two", s_two="one", s_new="two")
    update = project.run("-n", "2", "--snapshot-update", "--snapshot-reason", "wider windows")
    assert 0 == update.returncode, update.stdout + update.stderr
    assert {"s.new": TWO, "s.one": TWO, "s.two": b"LOSS|value=one\r\n", "s.unused": ONE} == project.told()
    assert [("s.new", "wider windows"), ("s.one", "wider windows")] == sorted(
        (entry.suite, entry.reason) for entry in project.store.history()[3:]
    )
    entry = project.store.entry("s.new")
    assert entry is not None
    assert ("cai-conform trace s.new", 1) == (entry.command, entry.records)
    again = project.run()
    assert 0 == again.returncode, again.stdout + again.stderr
    assert "unused" not in again.stdout


@pytest.mark.exhaustive
def test_plain_run_detects_a_changed_trace(project: Project) -> None:
    """Without the option a difference fails, is shown, and changes nothing."""
    project.record(s_one="two", s_two="one")
    before = project.told()
    run = project.run()
    assert 1 == run.returncode
    assert "1 failed, 1 passed" in run.stdout
    assert "LOSS|value=two" in run.stdout
    assert "trace.txt: sha256" in run.stdout
    assert before == project.told()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        pytest.param(
            ["--snapshot-update", "-n", "2"], {}, "A golden changes only with a reason", marks=pytest.mark.exhaustive
        ),
        (["--snapshot-update-new-only", "--snapshot-reason", "x"], {"CI": "true"}, "CI never writes a golden"),
    ],
    ids=["reason", "ci"],
)
def test_update_is_refused_before_any_test(
    project: Project, arguments: list[str], variables: dict[str, str], sentence: str
) -> None:
    """No reason, or CI: a usage error at the start, and no byte changes."""
    project.record(s_one="two", s_two="one")
    before = project.told()
    run = project.run(*arguments, **variables)
    assert 4 == run.returncode
    assert sentence in run.stderr
    assert before == project.told()


@pytest.mark.exhaustive
def test_damaged_golden_is_reported_and_never_updated(project: Project) -> None:
    """A trace that nobody accepted fails the test that reads it, with the sentence of the store, and stays."""
    project.record(s_one="two")
    path = project.store.root / "s.one" / "trace.txt"
    path.write_bytes(b"vandalised")
    run = project.run("--snapshot-update", "--snapshot-reason", "x")
    assert 1 == run.returncode
    assert "was accepted, and the file has" in run.stdout
    assert b"vandalised" == path.read_bytes()
    assert 3 == len(project.store.history())


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL here")
def test_kill_in_the_middle_of_an_update(project: Project) -> None:
    """A pytest killed right after its commit point leaves the new golden whole."""
    project.record(s_one="two", s_new="one")
    run = project.run("-p", "no:xdist", "--snapshot-update", "--snapshot-reason", "x", KILL="1")
    assert -9 == run.returncode
    assert ["x"] == [entry.reason for entry in project.store.history()[3:]]
    assert {"s.new": ONE, "s.one": b"LOSS|value=one\r\n", "s.two": ONE, "s.unused": ONE} == project.told()


def collection(store: GoldenStore, suite: str, data: str) -> SnapshotCollection:
    """What syrupy hands to the extension when it writes."""
    found = SnapshotCollection(location=str(store.root / suite / "trace.txt"))
    found.add(Snapshot(name=suite, data=data))
    return found


def test_extension_writes_candidates_only(store: GoldenStore) -> None:
    """Plain text, another suite's candidate and a missing reason are refused."""
    extension = golden_extension(store.root, "why")
    with pytest.raises(TypeError):
        extension().serialize("text")
    with pytest.raises(TypeError):
        extension.write_snapshot_collection(snapshot_collection=collection(store, "s.one", "text"))
    candidate = ProposedTrace(make("s.two"))
    with pytest.raises(CandidateUnusable, match=r"s\.one"):
        extension.write_snapshot_collection(snapshot_collection=collection(store, "s.one", candidate))
    with pytest.raises(ReasonMissing):
        golden_extension(store.root, "").write_snapshot_collection(
            snapshot_collection=collection(store, "s.two", candidate)
        )
    assert () == store.suites()


def test_extension_compares_more_than_the_trace(store: GoldenStore) -> None:
    """Another weight file, version or command is a difference, and is named even where the traces are equal."""
    store.accept_all([make(weights_safetensors=b"W")], reason="first")
    extension: GoldenExtension = golden_extension(store.root, "")()
    accepted = AcceptedTrace(store.read("course.ngram"))
    assert extension.matches(serialized_data=ProposedTrace(make()), snapshot_data=accepted)
    assert not extension.matches(serialized_data="text", snapshot_data=accepted)
    other = ProposedTrace(make(weights_safetensors=b"X", version="2"))
    assert not extension.matches(serialized_data=other, snapshot_data=accepted)
    version, weights = extension.diff_lines(other, accepted)
    assert "suite_version: 1 was accepted, 2 is proposed" == version
    assert weights.startswith("weights.safetensors: sha256 ")


def test_extension_shows_syrupy_nothing_to_delete(store: GoldenStore) -> None:
    """Nothing is discovered or claimed, and a deletion that is asked for all the same does not happen."""
    store.accept_all([make()], reason="first")
    extension = golden_extension(store.root, "why")()
    path = str(store.root / "course.ngram" / "trace.txt")
    location: object = None
    assert [] == list(extension.discover_snapshots(test_location=location))  # type: ignore[arg-type]
    assert not extension.is_snapshot_location(location=path)
    extension.delete_snapshots(snapshot_location=path, snapshot_names={"course.ngram"})
    assert Path(path).is_file()
