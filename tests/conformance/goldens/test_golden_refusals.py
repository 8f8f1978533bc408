"""When goldens are not written, and that then nothing changes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import GoldenStore
from cai_conformance.goldens.errors import (
    GoldenNotPlaced,
    GoldenReadOnly,
    GoldenWriteFailed,
    NameUnusable,
    ReasonMissing,
    RefusedInCi,
)
from support_golden_store import make


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock."""
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("reason", ["", "  ", "\n\t"])
def test_no_change_without_a_reason(store: GoldenStore, reason: str) -> None:
    """White space is no reason."""
    with pytest.raises(ReasonMissing) as caught:
        store.accept_all([make()], reason=reason)
    assert "--reason" in caught.value.next_command
    assert {} == contents(store.root)


def test_reason_is_trimmed_and_made_storable(store: GoldenStore) -> None:
    """A reason with an undecodable byte from the command line still lands in the ledger."""
    (entry,) = store.accept_all([make()], reason=" new init\udcff \n")
    assert "new init?" == entry.reason
    assert (entry,) == store.history()


@pytest.mark.parametrize("value", ["true", "1", "True", "yes", "woodpecker"])
def test_ci_never_writes(store: GoldenStore, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Any value that is not a word for false counts as CI."""
    monkeypatch.setenv("CI", value)
    with pytest.raises(RefusedInCi, match="CI never writes a golden"):
        store.accept_all([make()], reason="first")
    assert {} == contents(store.root)


@pytest.mark.parametrize("value", ["", "0", "false", "FALSE", " no ", "off"])
def test_ci_may_be_said_to_be_off(store: GoldenStore, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Words for false do not stop a person."""
    monkeypatch.setenv("CI", value)
    assert 1 == len(store.accept_all([make()], reason="first"))


@pytest.mark.parametrize("name", ["", "manifest.json", "course.ngram", "course.ngram/trace.txt", "ledger.jsonl"])
def test_no_write_bits_no_change(store: GoldenStore, name: str) -> None:
    """The folder, a suite's folder, the trace, the manifest or the ledger without write bits stop even root."""
    store.accept_all([make(text="one")], reason="first")
    before, path = contents(store.root), store.root / name
    mode = path.stat().st_mode
    path.chmod(mode & ~0o222)
    try:
        with pytest.raises(GoldenReadOnly) as caught:
            store.accept_all([make(text="two")], reason="second")
    finally:
        path.chmod(mode)
    assert str(path) == caught.value.path
    assert before == contents(store.root)
    assert not list(store.root.glob(".pending-*"))


def test_read_only_file_that_stays_is_no_obstacle(store: GoldenStore) -> None:
    """Only files that would be replaced need write permission."""
    store.accept_all([make(text="one", vectors_json=b"V")], reason="first")
    (store.root / "course.ngram" / "vectors.json").chmod(0o444)
    assert 1 == len(store.accept_all([make(text="two")], reason="second"))


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="this system cannot be asked")
def test_read_only_file_system(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system mounted read-only is found out before anything is tried."""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(GoldenReadOnly, match="read-only"):
        store.accept_all([make()], reason="first")
    assert [] == list(store.root.iterdir())


def test_something_else_in_the_place_of_a_golden(store: GoldenStore) -> None:
    """A file where the folder belongs, or a folder where the file belongs, is not swept away."""
    (store.root / "s.one").write_bytes(b"a file")
    (store.root / "s.two" / "trace.txt").mkdir(parents=True)
    for suite in ("s.one", "s.two"):
        with pytest.raises(GoldenReadOnly, match=r"a folder should be|no plain file"):
            store.accept_all([make(suite)], reason="first")
    assert {"s.one": b"a file"} == contents(store.root)


def test_suite_names_are_checked_first(store: GoldenStore) -> None:
    """No path is ever made from a name outside [a-z0-9_.-]."""
    with pytest.raises(NameUnusable):
        store.accept(
            "../elsewhere",
            {"trace.txt": b""},
            reason="first",
            suite_version="1",
            arithmetic="strict/1",
            command="c",
            records=0,
        )


@pytest.mark.parametrize("call", ["mkdir", "write", "fsync", "rename"])
@pytest.mark.parametrize("number", [1, 2])
def test_full_disk_leaves_everything_as_it_was(
    store: GoldenStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """An error of the operating system before the commit point undoes the preparation, wherever it strikes."""
    store.accept_all([make(text="one")], reason="first")
    before, original, left = contents(store.root), getattr(os, call), [number if call != "rename" else 1]

    def fail(*arguments: object, **options: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(GoldenWriteFailed, match="No space left"):
            store.accept_all([make(text="two")], reason="second")
    assert before == contents(store.root)
    assert [] == [path.name for path in store.root.iterdir() if path.name.startswith(".") and path.name != ".lock"]
    assert 1 == len(store.accept_all([make(text="two")], reason="second"))


def test_short_writes_are_continued(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operating system that takes three bytes at a time stores the same golden."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    store.accept_all([make(text="a longer text")], reason="first")
    assert b"LOSS|value=a longer text\n" == store.read("course.ngram").trace


def test_trouble_after_the_commit_point_is_said_and_healed(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that fails leaves an accepted change waiting; the message says so, and the next call finishes it."""
    store.accept_all([make(text="one")], reason="first")

    def fail(source: Path, target: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(GoldenNotPlaced, match="accepted"):
            store.accept_all([make(text="two")], reason="second")
        with pytest.raises(GoldenNotPlaced):
            store.accept_all([make(text="three")], reason="third")
    assert b"LOSS|value=two\n" == store.read("course.ngram").trace
    assert ["first", "second"] == [entry.reason for entry in store.history()]


@pytest.mark.parametrize(("name", "call"), [("the lock", "open"), ("the stale folder", "rmdir")], ids=["lock", "stale"])
def test_store_that_cannot_be_entered(
    store: GoldenStore, monkeypatch: pytest.MonkeyPatch, name: str, call: str
) -> None:
    """Without the lock, or with a stale folder that stays, nothing is begun."""
    (store.root / ".pending-1").mkdir()

    def fail(*arguments: object, **options: object) -> object:
        raise PermissionError(13, f"Permission denied for {name}")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(GoldenWriteFailed, match=name):
            store.accept_all([make()], reason="first")
    assert {} == contents(store.root)


def test_interrupt_before_the_commit_point(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C while files are prepared leaves no trace of them."""

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.accept_all([make()], reason="first")
    assert [".lock"] == [path.name for path in store.root.iterdir()]


def test_all_refusals_are_golden_errors() -> None:
    """The command line catches one kind of error and returns 2."""
    kinds = (GoldenNotPlaced, GoldenReadOnly, GoldenWriteFailed, NameUnusable, ReasonMissing, RefusedInCi)
    assert all(issubclass(kind, GoldenError) and kind.exit_code == 2 for kind in kinds)
