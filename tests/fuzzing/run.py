"""Many inputs for every reader of foreign input: `python tests/fuzzing/run.py --inputs 200000 --seed 1 --jobs 2`.

Prints the inputs of each target, the slowest of them and the peak memory, and every finding as bytes, made small, with
the command that repeats it. Exit code 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Final

if __name__ in ("__main__", "__mp_main__"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzzing.catalogue import TARGETS
from fuzzing.shrinking import shrunk
from fuzzing.target import Problem, Target, problem_of

CHUNK: Final = 250
"""So many inputs a worker is given at once."""

HANGING: Final = 120.0
"""After so many seconds on one input a worker is ended; it may wait for something and use no processor time."""

ROOM: Final = 400 << 20
"""So much memory an input may take beyond what the worker has anyway; more is refused by the system."""

TELLING: Final = 30.0
"""After so many seconds a line tells how far the run is."""

SHRINKING: Final = 30.0
"""So many seconds are spent on making a finding small."""

SHOWN: Final = 600
"""So many bytes of a finding are printed."""


@dataclass(frozen=True)
class Chunk:
    """Some inputs of a target: those with the numbers `start` up to `stop`."""

    target: str
    start: int
    stop: int


@dataclass(frozen=True)
class Finding:
    """An input that a reader does not take as it should."""

    target: str
    number: int
    problem: Problem
    data: bytes


@dataclass
class Tally:
    """What is known about a target, or about some of its inputs."""

    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_number: int = 0
    findings: list[Finding] = field(default_factory=list)
    peak: int = 0

    def add(self, other: Tally) -> None:
        """Add what is known about other inputs of the target."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        if other.slowest > self.slowest:
            self.slowest, self.slowest_number = other.slowest, other.slowest_number
        known = [finding.problem for finding in self.findings]
        self.findings += [new for new in other.findings if not any(new.problem.is_like(old) for old in known)]
        self.peak = max(self.peak, other.peak)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", action="append", default=[], help="a target, or how its name begins; repeatable")
    parser.add_argument("--only", type=int, help="one input of one target, by its number")
    options = parser.parse_args(arguments)
    chosen = [target for target in TARGETS.values() if _is_chosen(target.name, options.target)]
    if not chosen:
        parser.error(f"no such target; there are {', '.join(TARGETS)}")
    if options.only is not None:
        return _repeat(chosen, options.seed, options.only)
    start = time.monotonic()
    tallies = _run(list(_chunks(chosen, options.inputs)), options.seed, options.jobs)
    print(f"{'target':36}{'inputs':>8}{'mean ms':>10}{'slowest ms':>12}{'number':>8}{'findings':>10}")
    for name, tally in tallies.items():
        mean = 1000 * tally.seconds / max(1, tally.inputs)
        print(
            f"{name:36}{tally.inputs:8}{mean:10.2f}{1000 * tally.slowest:12.1f}{tally.slowest_number:8}"
            f"{len(tally.findings):10}"
        )
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    for finding in findings:
        _print(finding, options.seed)
    slowest = max(tallies, key=lambda name: tallies[name].slowest)
    peak = max(tally.peak for tally in tallies.values())
    total = sum(tally.inputs for tally in tallies.values())
    print(f"{total} inputs in {time.monotonic() - start:.0f} s, {len(findings)} findings, seed {options.seed}")
    print(f"slowest: {1000 * tallies[slowest].slowest:.1f} ms of processor time, {slowest}")
    print(f"peak memory of a worker: {peak / 2**20:.0f} MiB")
    return 1 if findings else 0


def _is_chosen(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(name.startswith(one) for one in wanted)


def _chunks(chosen: Sequence[Target], inputs: int) -> Iterator[Chunk]:
    shares = sum(target.share for target in chosen)
    for target in chosen:
        count = -(-inputs * target.share // shares)
        for start in range(0, count, CHUNK):
            yield Chunk(target.name, start, min(start + CHUNK, count))


def _run(chunks: list[Chunk], seed: int, jobs: int) -> dict[str, Tally]:
    tallies = {chunk.target: Tally() for chunk in chunks}
    waiting = chunks[::-1]
    workers: list[_Worker] = []
    total, done_inputs, told = sum(chunk.stop - chunk.start for chunk in chunks), 0, time.monotonic()
    while waiting or workers:
        while waiting and len(workers) < jobs:
            worker = _Worker(seed)
            worker.give(waiting.pop())
            workers.append(worker)
        ready = wait([worker.channel for worker in workers], timeout=1.0)
        for worker in list(workers):
            done = worker.result(worker.channel in ready)
            if done is None:
                continue
            chunk, tally, rest, alive = done
            tallies[chunk.target].add(tally)
            done_inputs += tally.inputs
            if time.monotonic() - told > TELLING:
                told = time.monotonic()
                print(f"{done_inputs} of {total} inputs, now {chunk.target}", file=sys.stderr, flush=True)
            if rest is not None:
                waiting.append(rest)
            if alive and waiting:
                worker.give(waiting.pop())
                continue
            worker.end()
            workers.remove(worker)
    return tallies


class _Worker:
    """A process that reads inputs; if one of them ends it, or keeps it, that is a finding."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, inner = context.Pipe()
        self._now: Synchronized[int] = context.Value("q", -1)
        self._process: SpawnProcess = context.Process(target=_work, args=(inner, self._now, seed), daemon=True)
        self._process.start()
        inner.close()
        self._chunk = Chunk("", 0, 0)
        self._last, self._since = -1, time.monotonic()
        self._seed = seed

    def give(self, chunk: Chunk) -> None:
        """Let it read some inputs."""
        self._chunk = chunk
        self._last, self._since = -1, time.monotonic()
        self.channel.send(chunk)

    def result(self, ready: bool) -> tuple[Chunk, Tally, Chunk | None, bool] | None:
        """Return what it found, what is left to do, and whether it lives; None while it is at work."""
        chunk = self._chunk
        if ready:
            try:
                return chunk, self.channel.recv(), None, True
            except (EOFError, OSError):
                self._process.join(5.0)
                return self._lost(f"the process ended with {self._process.exitcode}")
        number = self._now.value
        if number != self._last:
            self._last, self._since = number, time.monotonic()
        if time.monotonic() - self._since > HANGING:
            return self._lost(f"no end after {HANGING:g} s")
        return None

    def end(self) -> None:
        """End the process."""
        self.channel.close()
        self._process.join(0.1)
        self._process.kill()
        self._process.join()

    def _lost(self, text: str) -> tuple[Chunk, Tally, Chunk | None, bool]:
        chunk, number = self._chunk, max(self._now.value, self._chunk.start)
        data = TARGETS[chunk.target].given(self._seed, number)
        finding = Finding(chunk.target, number, Problem("Lost", chunk.target, text), data)
        rest = Chunk(chunk.target, number + 1, chunk.stop) if number + 1 < chunk.stop else None
        return chunk, Tally(number + 1 - chunk.start, findings=[finding]), rest, False


def _work(channel: Connection, now: Synchronized[int], seed: int) -> None:
    for target in TARGETS.values():
        assert target.seeds
    _limit_memory()
    # Of a worker that ends by a finding, the last words are of no use.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        try:
            chunk = channel.recv()
        except EOFError:
            return
        channel.send(_read_all(chunk, now, seed))


def _limit_memory() -> None:
    """Have the system refuse more memory than there is room for, where it tells how much is in use."""
    table = Path("/proc/self/statm")
    if table.exists():
        used = int(table.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))


def _read_all(chunk: Chunk, now: Synchronized[int], seed: int) -> Tally:
    target, tally = TARGETS[chunk.target], Tally()
    for number in range(chunk.start, chunk.stop):
        now.value = number
        data = target.given(seed, number)
        start = time.process_time()
        problem = problem_of(target, data, limited=True)
        spent = time.process_time() - start
        tally.inputs += 1
        tally.seconds += spent
        if spent > tally.slowest:
            tally.slowest, tally.slowest_number = spent, number
        if problem is not None and not any(problem.is_like(known.problem) for known in tally.findings):
            tally.findings.append(Finding(target.name, number, problem, _small(target, data, problem)))
    unit = 1 if sys.platform == "darwin" else 1024
    tally.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return tally


def _small(target: Target, data: bytes, problem: Problem) -> bytes:
    end = time.monotonic() + SHRINKING

    def fails(shorter: bytes) -> bool:
        return time.monotonic() < end and problem.is_like(problem_of(target, shorter, limited=True))

    return shrunk(data, fails)


def _repeat(chosen: Sequence[Target], seed: int, number: int) -> int:
    """Read one input again, and show what comes of it with the traceback."""
    (target,) = chosen if len(chosen) == 1 else (None,)
    if target is None:
        print("--only needs a single --target")
        return 2
    data = target.given(seed, number)
    print(repr(data[:SHOWN]))
    problem = problem_of(target, data)
    print(problem or "read as it should be")
    if problem is not None:
        target.read(data)
    return 0 if problem is None else 1


def _print(finding: Finding, seed: int) -> None:
    print(f"\n{finding.target}, input {finding.number}: {finding.problem}")
    more = f" + {len(finding.data) - SHOWN} more" if len(finding.data) > SHOWN else ""
    print(f"  {finding.data[:SHOWN]!r}{more}")
    print(f"  python tests/fuzzing/run.py --target {finding.target} --seed {seed} --only {finding.number}")


if __name__ == "__main__":
    sys.exit(main())
