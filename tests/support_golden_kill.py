"""A program that accepts goldens and dies at a chosen file-system call; its own process, so that forking is safe.

sweep FOLDER             kill before every call of a first and of a second accepting; print the outcomes as JSON
write ROOT SUITE... N    accept N generations of the suites, one line of output each
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.fixtures.goldens.store import GoldenStore

SUITES = ("s.one", "s.two")
CALLS = ("open", "os.mkdir", "os.rename", "os.remove")
"""Events that Python tells its audit hooks before it makes the call."""


def candidate(suite: str, generation: int) -> Candidate:
    """A golden whose every file tells its generation."""
    files = {name: f"generation={generation}\n".encode() * 20 for name in ("trace.txt", "weights.safetensors")}
    return Candidate(suite, files, str(generation), "strict/1", f"record {suite}", 20)


def accept(store: GoldenStore, suites: tuple[str, ...], generation: int) -> None:
    """Accept one generation of all suites."""
    store.accept_all([candidate(suite, generation) for suite in suites], reason=f"generation {generation}")


def survives(store: GoldenStore, generation: int, number: int) -> bool:
    """Whether accepting came to its end in a process that was to die before its call of this number, from 1."""
    child = os.fork()
    if child == 0:
        calls = count(1)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event in CALLS and str(store.root) in str(arguments[0]) and next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        accept(store, SUITES, generation)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def found_in(store: GoldenStore, generation: int) -> str:
    """`old`, `new` or `mixed`; no file may be anything but a whole one of this generation or the one before."""
    for path in store.root.glob("s.*/*"):
        known = [candidate("s", step).files[path.name] for step in (generation - 1, generation)]
        assert path.read_bytes() in known, path
    try:
        agrees = all(status.agrees for status in store.status())
    except Exception as error:
        assert "manifest.json is damaged: it is not there" in str(error)
        agrees = False
    entry = store.entry("s.two") if agrees else None
    version = int(entry.suite_version) if entry is not None else 0
    return "mixed" if not agrees else "new" if version == generation else "old"


def sweep(folder: Path, generation: int) -> list[str]:
    """What each kill left, in the order of the kills and last of a run to the end; accepting again repairs each."""
    outcomes = []
    for number in count(1):
        root = folder / f"{generation}-{number}"
        root.mkdir()
        store = GoldenStore(root)
        for step in range(1, generation):
            accept(store, SUITES, step)
        ended = survives(store, generation, number)
        outcomes.append(found_in(store, generation))
        accept(store, SUITES, generation)
        assert found_in(store, generation) == "new"
        for suite in SUITES:
            accepted = [change.suite_version for change in store.history(suite)]
            assert accepted == [str(step) for step in range(1, generation + 1)], accepted
            assert dict(store.read(suite).files) == dict(candidate(suite, generation).files)
        if ended:
            return outcomes
    raise AssertionError


def main(command: str, *arguments: str) -> None:
    """Run one of the two commands."""
    if command == "sweep":
        print(json.dumps([sweep(Path(arguments[0]), generation) for generation in (1, 2)]))
        return
    root, *suites, number = arguments
    for generation in range(1, int(number) + 1):
        accept(GoldenStore(root), tuple(suites), generation)
        print(generation, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
