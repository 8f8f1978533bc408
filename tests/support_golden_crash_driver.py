"""A program that accepts goldens and dies at a chosen file-system call; its own process, so that forking is safe.

sweep SCENARIO FOLDER    kill before every call and in the middle of every write; print the outcomes as JSON
write ROOT SUITE... N    accept N generations of the suites, one line of output each
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from cai_conformance.goldens import Candidate, GoldenStore

CALLS = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "rmdir", "unlink")


def candidate(suite: str, generation: int) -> Candidate:
    """A golden whose every file tells its generation."""
    files = {
        "trace.txt": f"LOSS|generation={generation}\n".encode() * 20,
        "weights.safetensors": f"generation={generation}".encode() * 20,
    }
    return Candidate(suite, files, str(generation), "strict/1", f"record {suite}", 20)


def generation_of(root: Path, suites: tuple[str, ...]) -> int:
    """The generation that all suites are in, 0 for none yet; anything in between is an error."""
    store = GoldenStore(root)
    disagreeing = [status for status in store.status() if not status.agrees]
    assert not disagreeing, disagreeing
    versions = set()
    for suite in suites:
        entry = store.entry(suite)
        versions.add(0 if entry is None else int(entry.suite_version))
        if entry is not None:
            expected = candidate(suite, int(entry.suite_version)).files
            assert dict(expected) == dict(store.read(suite).files), suite
    assert len(versions) == 1, versions
    generation = versions.pop()
    for suite in suites:
        accepted = [change.suite_version for change in store.history(suite)]
        assert accepted == [str(step) for step in range(1, generation + 1)], accepted
    return generation


def accept(root: Path, suites: tuple[str, ...], generation: int) -> None:
    """Accept one generation of all suites at one commit point."""
    GoldenStore(root).accept_all([candidate(suite, generation) for suite in suites], reason=f"generation {generation}")


def die() -> None:
    """What `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(number: int, moment: str) -> list[str]:
    """Make the process die at its call of this number, counting from 1; returns the list that calls are logged to."""
    log: list[str] = []

    def watched(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def replacement(*arguments: object, **options: object) -> object:
            log.append(name)
            mine = len(log) == number
            if mine and moment == "before":
                die()
            if mine and moment == "middle" and name == "write":
                data = memoryview(arguments[1])  # type: ignore[arg-type]
                call(arguments[0], data[: len(data) // 2])
                die()
            return call(*arguments, **options)

        return replacement

    for name in CALLS:
        setattr(os, name, watched(name, getattr(os, name)))
    return log


def survives(action: Callable[[], object], number: int, moment: str) -> bool:
    """Whether the action came to its end in a process that was to die at one of its calls."""
    child = os.fork()
    if child == 0:
        try:
            die_at(number, moment)
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def calls_of(action: Callable[[], object]) -> list[str]:
    """The calls that the action makes, in their order."""
    originals = {name: getattr(os, name) for name in CALLS}
    log = die_at(0, "before")
    try:
        action()
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
    return log


def prepare(scenario: str, root: Path) -> tuple[tuple[str, ...], Callable[[Path], object]]:
    """Lay out a store; returns its suites, and what is done to it while it is killed."""
    suites = ("s.one", "s.two")
    root.mkdir()
    if scenario == "first":
        return suites, lambda folder: accept(folder, suites, 1)
    accept(root, suites, 1)
    if scenario == "stale":
        (root / ".pending-1" / "s.one").mkdir(parents=True)
        (root / ".pending-1" / "s.one" / "trace.txt").write_bytes(b"half")
    if scenario in ("finish", "overtake"):
        trial = root.with_name("trial")
        shutil.copytree(root, trial)
        committed = calls_of(lambda: accept(trial, suites, 2)).index("rename") + 2
        assert not survives(lambda: accept(root, suites, 2), committed, "before")
        assert (root / ".accepted").is_dir()
        if scenario == "finish":
            return suites, lambda folder: GoldenStore(folder).status()
        return suites, lambda folder: accept(folder, suites, 3)
    return suites, lambda folder: accept(folder, suites, 2)


def sweep(scenario: str, folder: Path) -> list[int]:
    """The generation found after each kill in the order of the kills, and last that of a run to the end."""
    # A killed process loses nothing that the kernel has, so there is no need to wait for a disk.
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    start, root = folder / "start", folder / "golden"
    suites, action = prepare(scenario, start)
    shutil.copytree(start, root)
    calls = calls_of(lambda: action(root))
    shutil.rmtree(root)
    found = []
    for number, call in enumerate([*calls, "end"], start=1):
        # Before one call is after the one before it.
        for moment in ("before", "middle") if call == "write" else ("before",):
            shutil.copytree(start, root)
            assert survives(lambda: action(root), number, moment) == (call == "end")
            # The one who finishes it dies as well, somewhere else each time.
            survives(lambda: GoldenStore(root).status(), 1 + number % 11, moment)
            found.append(generation_of(root, suites))
            assert not (root / ".accepted").exists()
            shutil.rmtree(root)
    return found


def main(command: str, *arguments: str) -> None:
    """Run one of the two commands."""
    if command == "sweep":
        scenario, folder = arguments
        print(json.dumps(sweep(scenario, Path(folder))))
        return
    root, *suites, count = arguments
    first = generation_of(Path(root), tuple(suites)) + 1
    for generation in range(first, first + int(count)):
        accept(Path(root), tuple(suites), generation)
        print(generation, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
