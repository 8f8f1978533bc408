"""Killed at any moment, a store is whole: old or new, with manifest and ledger to match."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cai_conformance.goldens import GoldenStore, transaction
from support_golden_store import child_environment, interrupted, make

DRIVER = Path(__file__).parents[2] / "support_golden_crash_driver.py"

needs_kill = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork and no SIGKILL here")


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the driver."""
    command = [sys.executable, str(DRIVER), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())


def whole_generation(store: GoldenStore, *suites: str) -> int:
    """The one generation that every file of the suites tells; nothing may disagree."""
    assert [] == [status for status in store.status() if not status.agrees]
    told = {text.split(b"generation=")[-1].strip() for suite in suites for text in store.read(suite).files.values()}
    (generation,) = told
    return int(generation)


@needs_kill
@pytest.mark.parametrize(
    ("scenario", "generations"),
    [
        ("change", [1, 2]),
        pytest.param("finish", [2], marks=pytest.mark.exhaustive),
        pytest.param("first", [0, 1], marks=pytest.mark.exhaustive),
        pytest.param("stale", [1, 2], marks=pytest.mark.exhaustive),
        pytest.param("overtake", [2, 3], marks=pytest.mark.exhaustive),
    ],
)
def test_kill_at_every_call(tmp_path: Path, scenario: str, generations: list[int]) -> None:
    """Between any two file-system calls and inside any write, `kill -9` leaves the old or the new golden whole."""
    with start("sweep", scenario, str(tmp_path)) as driver:
        output, _ = driver.communicate()
    assert 0 == driver.returncode
    found = json.loads(output)
    assert found == sorted(found), "once committed, always committed"
    assert generations == sorted(set(found))
    assert len(found) > 12, "the calls were really counted"


@needs_kill
@pytest.mark.parametrize("step", [1, *(pytest.param(step, marks=pytest.mark.exhaustive) for step in (0, 2, 3))])
def test_kill_at_random(store: GoldenStore, step: int) -> None:
    """A writer in full swing, killed from outside, leaves a whole generation and lets the next writer go on."""
    with start("write", str(store.root), "s.one", "s.two", "100000") as writer:
        assert writer.stdout is not None
        assert "1\n" == writer.stdout.readline()
        time.sleep(0.0037 * step)
        writer.send_signal(signal.SIGKILL)
        printed = writer.stdout.read().split()
    generation = whole_generation(store, "s.one", "s.two")
    # The last line may have been lost after the commit, never before it.
    assert generation >= max(map(int, printed), default=1)
    with start("write", str(store.root), "s.one", "s.two", "1") as writer:
        output, _ = writer.communicate()
    assert f"{generation + 1}\n" == output
    assert generation + 1 == whole_generation(store, "s.one", "s.two")


def test_two_writers_and_a_reader(store: GoldenStore) -> None:
    """All changes of two writers land one after the other, and a reader between them never sees half of one."""
    count = 12
    writers = [start("write", str(store.root), suite, str(count)) for suite in ("s.one", "s.two")]
    looks = 0
    while any(writer.poll() is None for writer in writers) or not looks:
        assert [] == [status for status in store.status() if not status.agrees]
        looks += 1
    for writer in writers:
        writer.communicate()
        assert 0 == writer.returncode
    history = store.history()
    assert list(range(1, 2 * count + 1)) == [entry.sequence for entry in history]
    assert 2 * [[str(step) for step in range(1, count + 1)]] == [
        [entry.suite_version for entry in history if entry.suite == suite] for suite in ("s.one", "s.two")
    ]
    assert count == whole_generation(store, "s.one") == whole_generation(store, "s.two")


def test_next_reader_finishes_an_accepted_change(store: GoldenStore) -> None:
    """A change that stopped after its commit point is moved into place by whoever looks next."""
    store.accept_all([make(text="one")], reason="first")
    interrupted(store, make(text="two"))
    assert b"LOSS|value=one\n" == (store.root / "course.ngram" / "trace.txt").read_bytes()
    assert b"LOSS|value=two\n" == store.read("course.ngram").trace
    assert b"LOSS|value=two\n" == (store.root / "course.ngram" / "trace.txt").read_bytes()
    assert not (store.root / ".accepted").exists()


def test_next_writer_builds_on_an_accepted_change(store: GoldenStore) -> None:
    """A writer finishes what it finds before it compares, so that no ledger line is lost."""
    store.accept_all([make(text="one")], reason="first")
    interrupted(store, make(text="two"))
    store.accept_all([make(text="three")], reason="third")
    assert ["first", "interrupted", "third"] == [entry.reason for entry in store.history()]
    assert [True] == [status.agrees for status in store.status()]


def test_read_only_installation_is_looked_through(store: GoldenStore) -> None:
    """Where nothing may be moved, an accepted change is read where it lies."""
    store.accept_all([make(text="one", vectors_json=b"V")], reason="first")
    interrupted(store, make(text="two", weights_safetensors=b"W"))
    store.root.chmod(0o555)
    try:
        golden = store.read("course.ngram")
        assert (b"LOSS|value=two\n", b"V", b"W") == tuple(
            golden.files[name] for name in ("trace.txt", "vectors.json", "weights.safetensors")
        )
        assert [True] == [status.agrees for status in store.status()]
        assert ["first", "interrupted"] == [entry.reason for entry in store.history()]
        assert (store.root / ".accepted").is_dir()
    finally:
        store.root.chmod(0o755)
    assert b"LOSS|value=two\n" == store.read("course.ngram").trace
    assert not (store.root / ".accepted").exists()


def test_reader_looks_through_what_it_cannot_move(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that seems writable and is not makes no reader fail."""
    interrupted(store, make(text="one"))

    def refuse(source: object, target: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    assert b"LOSS|value=one\n" == store.read("course.ngram").trace
    assert (store.root / ".accepted").is_dir()


def test_stale_pending_folder_goes_with_the_next_writer(store: GoldenStore) -> None:
    """What a dead writer prepared is no finding of the status, and is gone after the next accept."""
    (store.root / ".pending-123" / "course.ngram").mkdir(parents=True)
    (store.root / ".pending-123" / "course.ngram" / "trace.txt").write_bytes(b"half")
    assert () == store.status()
    store.accept_all([make()], reason="first")
    assert not (store.root / ".pending-123").exists()


def test_everything_is_on_the_disk_before_the_commit(store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new file and each new folder is flushed before the rename, and each target folder before the cleaning up."""
    names: dict[int, str] = {}
    events: list[str] = []
    opened, rename, rmdir = os.open, os.rename, os.rmdir

    def watch_open(path: str, *arguments: int) -> int:
        descriptor = opened(path, *arguments)
        names[descriptor] = str(Path(path).relative_to(store.root))
        return descriptor

    def watch_rename(source: Path, target: Path) -> None:
        events.append("commit")
        rename(source, target)

    def watch_rmdir(path: Path) -> None:
        events.append("clean")
        rmdir(path)

    monkeypatch.setattr(os, "open", watch_open)
    monkeypatch.setattr(os, "fsync", lambda descriptor: events.append(names[descriptor]))
    monkeypatch.setattr(os, "rename", watch_rename)
    monkeypatch.setattr(os, "rmdir", watch_rmdir)
    store.accept_all([make(vectors_json=b"V")], reason="first")
    stage = f"{transaction.PENDING}{os.getpid()}"
    inside = {"course.ngram", "course.ngram/trace.txt", "course.ngram/vectors.json", "ledger.jsonl", "manifest.json"}
    assert {stage, *(f"{stage}/{name}" for name in inside)} == set(events[: events.index("commit")])
    assert {".", "course.ngram"} == set(events[events.index("commit") + 1 : events.index("clean")])
    assert "." == events[-1]
