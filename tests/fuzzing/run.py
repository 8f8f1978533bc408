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
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

if __name__ in ("__main__", "__mp_main__"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzzing.catalogue import TARGETS
from fuzzing.target import Problem, Target, problem_of, shrunk

CHUNK: Final = 250
"""So many inputs a worker is given at once."""

ROOM: Final = 400 << 20
"""So much memory an input may take beyond what the worker has anyway; more is refused by the system."""

SHRINKING: Final = 30.0
"""So many seconds are spent on making a finding small."""

SHOWN: Final = 600
"""So many bytes of a finding are printed."""

CONTEXT: Final = multiprocessing.get_context("spawn")

Chunk = tuple[str, int, int]
"""Some inputs of a target: those with the numbers from the first up to the second."""

Finding = tuple[int, Problem, bytes]
"""The number of an input that a reader does not take as it should, what was wrong, and the input made small."""


@dataclass
class Tally:
    """What is known about a target, or about some of its inputs."""

    inputs: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)
    findings: list[Finding] = field(default_factory=list)
    peak: int = 0

    def add(self, other: Tally) -> None:
        """Add what is known about other inputs of the target."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.peak = max(self.peak, other.peak)
        for new in other.findings:
            if not any(new[1].is_like(problem) for _, problem, _ in self.findings):
                self.findings.append(new)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", action="append", default=[], help="a target, or how its name begins; repeatable")
    parser.add_argument("--only", type=int, help="one input of one target, by its number")
    options = parser.parse_args(arguments)
    chosen = [target for name, target in TARGETS.items() if name.startswith(tuple(options.target) or "")]
    if not chosen or (options.only is not None and len(chosen) > 1):
        parser.error(f"no such target, or more than one with --only; there are {', '.join(TARGETS)}")
    if options.only is not None:
        return repeat(chosen[0], options.seed, options.only)
    start = time.monotonic()
    tallies = read_chunks(chosen, options)
    print(f"{'target':36}{'inputs':>8}{'mean ms':>10}{'slowest ms':>12}{'number':>8}{'findings':>10}")
    for name, tally in tallies.items():
        mean, (slowest, number) = 1000 * tally.seconds / max(1, tally.inputs), tally.slowest
        print(f"{name:36}{tally.inputs:8}{mean:10.2f}{1000 * slowest:12.1f}{number:8}{len(tally.findings):10}")
        for number, problem, data in tally.findings:
            print(f"\n{name}, input {number}: {problem}\n  {data[:SHOWN]!r} of {len(data)} bytes")
            print(f"  python tests/fuzzing/run.py --target {name} --seed {options.seed} --only {number}\n")
    findings, total = (
        sum(count) for count in zip(*((len(t.findings), t.inputs) for t in tallies.values()), strict=True)
    )
    print(f"{total} inputs in {time.monotonic() - start:.0f} s, {findings} findings, seed {options.seed}")
    print(f"peak memory of a worker: {max(tally.peak for tally in tallies.values()) / 2**20:.0f} MiB")
    return 1 if findings else 0


def read_chunks(chosen: Sequence[Target], options: argparse.Namespace) -> dict[str, Tally]:
    """Let processes read the inputs of all targets; an input that ends its process is a finding, too."""
    shares, chunks = sum(target.share for target in chosen), list[Chunk]()
    for target in chosen:
        count = -(-options.inputs * target.share // shares)
        chunks += [(target.name, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    tallies, lost = {target.name: Tally() for target in chosen}, list[Chunk]()
    with ProcessPoolExecutor(options.jobs, CONTEXT, limit_memory) as pool:
        futures = [pool.submit(read_all, chunk, options.seed) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                tallies[chunk[0]].add(future.result())
            except BrokenProcessPool:
                lost.append(chunk)
    for chunk in lost:
        tallies[chunk[0]].add(read_alone(chunk, options.seed))
    return tallies


def read_alone(chunk: Chunk, seed: int) -> Tally:
    """Read inputs in a process of their own; if it is ended, each half of them, until the one is found that ends it."""
    name, start, stop = chunk
    with ProcessPoolExecutor(1, CONTEXT, limit_memory) as pool, suppress(BrokenProcessPool):
        return pool.submit(read_all, chunk, seed).result()
    if stop - start == 1:
        return Tally(
            1, findings=[(start, Problem("Lost", name, "the process ended"), TARGETS[name].given(seed, start))]
        )
    middle = (start + stop) // 2
    tally = read_alone((name, start, middle), seed)
    tally.add(read_alone((name, middle, stop), seed))
    return tally


def limit_memory() -> None:
    """Have the system refuse more memory than there is room for, where it tells how much is in use."""
    for target in TARGETS.values():
        assert target.seeds
    table = Path("/proc/self/statm")
    if table.exists():
        used = int(table.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    # Of a worker that ends by a finding, the last words are of no use.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def read_all(chunk: Chunk, seed: int) -> Tally:
    """Read some inputs of a target."""
    name, start, stop = chunk
    target, tally = TARGETS[name], Tally()
    for number in range(start, stop):
        data = target.given(seed, number)
        begin = time.process_time()
        problem = problem_of(target, data, limited=True)
        spent, end = time.process_time() - begin, time.monotonic() + SHRINKING
        found = Tally(1, spent, (spent, number))
        if problem is not None and not any(problem.is_like(known) for _, known, _ in tally.findings):

            def fails(shorter: bytes, problem: Problem = problem, end: float = end) -> bool:
                return time.monotonic() < end and problem.is_like(problem_of(target, shorter, limited=True))

            found.findings = [(number, problem, shrunk(data, fails))]
        tally.add(found)
    unit = 1 if sys.platform == "darwin" else 1024
    tally.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return tally


def repeat(target: Target, seed: int, number: int) -> int:
    """Read one input again, and show what comes of it with the traceback."""
    data = target.given(seed, number)
    print(repr(data[:SHOWN]))
    problem = problem_of(target, data)
    print(problem or "read as it should be")
    if problem is not None:
        target.read(data)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
