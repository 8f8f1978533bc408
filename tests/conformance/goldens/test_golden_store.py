"""Reading, accepting and examining goldens."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import (
    Candidate,
    FileChange,
    FileEntry,
    GoldenStore,
    LedgerEntry,
    State,
    Status,
    SuiteEntry,
    locate,
    transaction,
)
from cai_conformance.goldens.errors import (
    CandidateUnusable,
    GoldenDisagrees,
    GoldenFolderMissing,
    GoldenMissing,
    GoldenUnreadable,
    LedgerDamaged,
    ManifestDamaged,
    NameUnusable,
)
from support_golden_store import make


def sha(data: bytes) -> str:
    """SHA-256, said independently."""
    return hashlib.sha256(data).hexdigest()


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def labels(store: GoldenStore) -> dict[str, str]:
    """The state of each suite in words."""
    return {status.suite: status.label for status in store.status()}


def test_first_golden_lands_whole(store: GoldenStore) -> None:
    """Files, manifest and ledger appear together, and the entry says what happened."""
    entry = store.accept(
        "course.ngram",
        {"trace.txt": b"LOSS|a=1\n", "vectors.json": b"{}"},
        reason="first recording",
        suite_version="1",
        arithmetic="strict/1",
        command="cai-conform trace course.ngram",
        records=1,
    )
    trace, vectors = sha(b"LOSS|a=1\n"), sha(b"{}")
    changes = (FileChange("trace.txt", None, trace), FileChange("vectors.json", None, vectors))
    assert LedgerEntry(1, "course.ngram", "1", "first recording", changes) == entry
    golden = store.read("course.ngram")
    assert {"trace.txt": b"LOSS|a=1\n", "vectors.json": b"{}"} == dict(golden.files)
    assert b"LOSS|a=1\n" == golden.trace
    files = (FileEntry("trace.txt", trace, 9, 1), FileEntry("vectors.json", vectors, 2))
    assert SuiteEntry("course.ngram", "1", "strict/1", "cai-conform trace course.ngram", files) == golden.entry
    assert (Status("course.ngram"),) == store.status()
    assert ["course.ngram", "ledger.jsonl", "manifest.json"] == sorted(
        path.name for path in store.root.iterdir() if path.name != ".lock"
    )


def test_unchanged_golden_writes_nothing(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepting what is already accepted is None, and no commit is tried."""
    store.accept_all([make()], reason="first")
    before = snapshot(store.root)
    monkeypatch.setattr(transaction, "commit", lambda root, files: pytest.fail("nothing was to be written"))
    assert () == store.accept_all([make()], reason="again")
    assert before == snapshot(store.root)


def test_files_not_named_stay(store: GoldenStore) -> None:
    """A new trace leaves weights and vectors alone, on disk, in the manifest and in the ledger."""
    store.accept_all([make(weights_safetensors=b"W", vectors_json=b"V")], reason="first")
    (entry,) = store.accept_all([make(text="two")], reason="second")
    assert ("trace.txt",) == tuple(change.name for change in entry.files)
    assert b"W" == store.read("course.ngram").files["weights.safetensors"]
    assert ["agrees"] == list(labels(store).values())


def test_ledger_is_appended_to(store: GoldenStore) -> None:
    """Earlier lines keep their bytes, and each change starts from the hash that the previous one left."""
    store.accept_all([make(text="one")], reason="first")
    first = (store.root / "ledger.jsonl").read_bytes()
    store.accept_all([make(text="two", version="2")], reason="second")
    assert (store.root / "ledger.jsonl").read_bytes().startswith(first)
    one, two = store.history("course.ngram")
    assert (1, "1", 2, "2") == (one.sequence, one.suite_version, two.sequence, two.suite_version)
    assert one.files[0].after == two.files[0].before == sha(b"LOSS|value=one\n")
    assert () == store.history("other")


def test_several_suites_share_one_commit(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """All suites of one call land at one commit point, with consecutive ledger lines for those that change."""
    store.accept_all([make("s.two")], reason="first")
    commits: list[list[str]] = []
    commit = transaction.commit

    def watched(root: Path, files: Mapping[str, bytes]) -> None:
        commits.append(sorted(files))
        commit(root, files)

    monkeypatch.setattr(transaction, "commit", watched)
    entries = store.accept_all([make("s.three"), make("s.two"), make("s.one")], reason="more")
    assert [(2, "s.three"), (3, "s.one")] == [(entry.sequence, entry.suite) for entry in entries]
    assert [["ledger.jsonl", "manifest.json", "s.one/trace.txt", "s.three/trace.txt"]] == commits
    assert ("s.one", "s.three", "s.two") == store.suites()
    assert {"s.one": "agrees", "s.three": "agrees", "s.two": "agrees"} == labels(store)


def test_a_change_of_version_alone_is_a_change(store: GoldenStore) -> None:
    """The manifest follows version and command even where no file changes, and the ledger says so."""
    store.accept_all([make(version="1")], reason="first")
    (entry,) = store.accept_all([make(version="2")], reason="the suite says the same with more words")
    assert ((), "2") == (entry.files, entry.suite_version)
    present = store.entry("course.ngram")
    assert present is not None
    assert ("2", 1) == (present.suite_version, present.records)
    assert ["agrees"] == list(labels(store).values())


def test_a_file_changed_behind_the_manifest_is_put_back(store: GoldenStore) -> None:
    """Accepting the accepted bytes again repairs the file and leaves a ledger line with equal hashes."""
    store.accept_all([make()], reason="first")
    (store.root / "course.ngram" / "trace.txt").write_bytes(b"vandalised")
    (entry,) = store.accept_all([make()], reason="put back")
    assert entry.files[0].before == entry.files[0].after
    assert b"LOSS|value=one\n" == store.read("course.ngram").trace


def test_missing_goldens_are_typed(store: GoldenStore) -> None:
    """No such suite, no such folder and no such name are three different errors."""
    with pytest.raises(GoldenMissing) as caught:
        store.read("course.ngram")
    assert "cai-conform golden accept course.ngram" in caught.value.next_command
    store.accept_all([make()], reason="first")
    with pytest.raises(GoldenMissing):
        store.read("other")
    assert store.entry("other") is None
    with pytest.raises(NameUnusable):
        store.read("../course.ngram")
    with pytest.raises(GoldenFolderMissing):
        GoldenStore(store.root / "nowhere")


def test_reading_checks_the_manifest(store: GoldenStore) -> None:
    """A file with one other byte, of another size, or missing, is never handed out."""
    store.accept_all([make()], reason="first")
    path = store.root / "course.ngram" / "trace.txt"
    for data in (b"LOSS|value=onE\n", b"LOSS|value=one\r\n", None):
        path.unlink() if data is None else path.write_bytes(data)
        with pytest.raises(GoldenDisagrees, match=r"course\.ngram/trace\.txt"):
            store.read("course.ngram")


def test_status_names_every_disagreement(store: GoldenStore) -> None:
    """Modified, missing, unlisted, and a ledger that tells another story, each at its suite."""
    store.accept_all([make(name, vectors_json=b"V") for name in ("s.a", "s.b", "s.c", "s.d")], reason="first")
    (store.root / "s.a" / "trace.txt").write_bytes(b"x")
    (store.root / "s.b" / "vectors.json").unlink()
    (store.root / "s.c" / "notes.txt").write_bytes(b"x")
    (store.root / "stray").mkdir()
    (store.root / "stray" / "trace.txt").write_bytes(b"x")
    (store.root / "stray.bin").write_bytes(b"x")
    (store.root / "README.md").write_bytes(b"what this folder is")
    (store.root / "empty").mkdir()
    page = json.loads((store.root / "manifest.json").read_bytes())
    page["suites"][3]["suite_version"] = "9"
    page["suites"][3]["files"][1]["sha256"] = sha(b"other")
    (store.root / "manifest.json").write_text(json.dumps(page), encoding="utf-8")
    assert {
        "s.a": "modified",
        "s.b": "missing",
        "s.c": "unlisted",
        "s.d": "modified, ledger",
        "stray": "unlisted",
        "stray.bin": "unlisted",
    } == labels(store)
    findings = {status.suite: status.findings for status in store.status()}
    assert ["s.d/vectors.json", "ledger.jsonl", "ledger.jsonl"] == [finding.path for finding in findings["s.d"]]
    assert [State.MODIFIED, State.LEDGER, State.LEDGER] == [finding.state for finding in findings["s.d"]]


def test_status_sees_goldens_that_only_one_of_the_books_knows(store: GoldenStore) -> None:
    """A suite dropped from the manifest, or never accepted by the ledger, is reported."""
    store.accept_all([make("s.a"), make("s.b")], reason="first")
    page = json.loads((store.root / "manifest.json").read_bytes())
    page["suites"][0]["suite"] = "s.aa"
    page["suites"][0]["files"][0]["path"] = "s.aa/trace.txt"
    (store.root / "manifest.json").write_text(json.dumps(page), encoding="utf-8")
    assert {"s.a": "unlisted, ledger", "s.aa": "missing, ledger", "s.b": "agrees"} == labels(store)


def test_an_empty_store_agrees(store: GoldenStore) -> None:
    """Nothing recorded yet is no disagreement, and looking leaves nothing behind."""
    assert () == store.status()
    assert () == store.suites()
    assert [] == list(store.root.iterdir())


def test_damaged_books_are_never_overwritten(store: GoldenStore) -> None:
    """With a bent or missing manifest or ledger, or two that disagree, accepting changes no byte."""
    store.accept_all([make()], reason="first")
    sound = snapshot(store.root)
    bent = json.dumps(json.loads(sound["manifest.json"]) | {"suites": []}).encode()
    damages: list[tuple[str, bytes | None, type[GoldenError]]] = [
        ("manifest.json", b"<<<<<<< HEAD\n", ManifestDamaged),
        ("manifest.json", None, ManifestDamaged),
        ("manifest.json", bent, GoldenDisagrees),
        ("ledger.jsonl", sound["ledger.jsonl"][:-5], LedgerDamaged),
        ("ledger.jsonl", None, LedgerDamaged),
        ("ledger.jsonl", b"", GoldenDisagrees),
    ]
    for name, data, kind in damages:
        path = store.root / name
        path.unlink() if data is None else path.write_bytes(data)
        damaged = snapshot(store.root)
        with pytest.raises(kind):
            store.accept_all([make(text="two")], reason="second")
        assert damaged == snapshot(store.root)
        path.write_bytes(sound[name])


def test_candidates_must_make_sense_together(store: GoldenStore) -> None:
    """Two candidates for one suite, or a golden without a trace, are refused before anything is written."""
    with pytest.raises(CandidateUnusable, match="twice"):
        store.accept_all([make(text="one"), make(text="two")], reason="both")
    bare = Candidate("s", {"vectors.json": b"{}"}, "1", "strict/1", "c", 0)
    with pytest.raises(CandidateUnusable, match=r"no trace\.txt"):
        store.accept_all([make(), bare], reason="no trace")
    assert {} == snapshot(store.root)


def test_unreadable_file_is_typed(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read error of the operating system becomes one sentence with the path."""
    store.accept_all([make()], reason="first")

    def broken(path: Path) -> bytes:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(Path, "read_bytes", broken)
    with pytest.raises(GoldenUnreadable, match="Input/output error"):
        store.read("course.ngram")


def test_reading_leaves_no_trace(store: GoldenStore) -> None:
    """A reader of an installed package makes no file there, not even a lock."""
    store.accept_all([make()], reason="first")
    (store.root / ".lock").unlink()
    store.read("course.ngram")
    store.status()
    assert not (store.root / ".lock").exists()


def test_lock_that_must_not_be_opened_stops_no_reader(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an installation of somebody else's there is nothing to wait for."""
    store.accept_all([make()], reason="first")

    def refuse(path: Path, *arguments: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert b"LOSS|value=one\n" == store.read("course.ngram").trace


def test_reader_without_a_lock_looks_again_when_a_writer_came(
    store: GoldenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writer ever may arrive between two reads of one look; the reader then starts over."""
    store.accept_all([make(text="one")], reason="first")
    (store.root / ".lock").unlink()
    read, seen = transaction.View.read, list[str]()

    def read_and_be_overtaken(view: transaction.View, name: str) -> bytes | None:
        seen.append(name)
        data = read(view, name)
        if len(seen) == 1:
            store.accept_all([make(text="two")], reason="overtakes")
        return data

    monkeypatch.setattr(transaction.View, "read", read_and_be_overtaken)
    assert b"LOSS|value=two\n" == store.read("course.ngram").trace


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b"]),
                st.dictionaries(st.sampled_from(["trace.txt", "x.json"]), st.binary(max_size=3), max_size=2),
                st.sampled_from(["1", "2"]),
            ),
            min_size=1,
            max_size=2,
            unique_by=lambda change: change[0],
        ),
        max_size=4,
    )
)
def test_any_history_agrees_and_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    history: list[list[tuple[str, dict[str, bytes], str]]],
) -> None:
    """After any sequence of accepts the store agrees with itself and with a plain dictionary of what was accepted."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.delenv("CI", raising=False)
    store = GoldenStore(tmp_path_factory.mktemp("golden"))
    model: dict[str, dict[str, bytes]] = {}
    for step in history:
        candidates = [
            Candidate(suite, {"trace.txt": b""} | model.get(suite, {}) | files, version, "fast", "c", 0)
            for suite, files, version in step
        ]
        store.accept_all(candidates, reason="because")
        model |= {candidate.suite: dict(candidate.files) for candidate in candidates}
    assert all(status.agrees for status in store.status())
    assert model == {suite: dict(store.read(suite).files) for suite in store.suites()}


def test_shipped_goldens_agree() -> None:
    """The goldens of this repository, its manifest and its ledger tell one story."""
    assert [] == [status for status in GoldenStore(locate()).status() if not status.agrees]
