"""Judging many faults, in worker processes: each fault on a workload is a task of its own and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeAlias

from cai_conformance.backends.errors import one_line
from cai_conformance.faults.catalogue import FAULTS
from cai_conformance.faults.errors import FaultError
from cai_conformance.faults.fault import Fault
from cai_conformance.faults.workload import Workload
from cai_conformance.run.kill_matrix.observation import Observation, observe
from cai_conformance.run.kill_matrix.results import FaultResult, KillMatrix

Task: TypeAlias = tuple[str, Workload]
Told: TypeAlias = Callable[[str], None]
"""Hears of each task that is done: the fault and its workload."""


def run_faults(
    faults: Sequence[Fault] = FAULTS, jobs: int = 1, told: Told | None = None, *, untouched: bool = True
) -> KillMatrix:
    """Judge faults in all their workloads, and each of these workloads without a fault.

    Args:
        faults: which.
        jobs: how many processes work beside each other; with 1, this one does.
        told: hears of each task that is done.
        untouched: whether the reference as it is has to be judged, too.

    Raises:
        GoldenError: the suites' own files are missing or damaged, and this process judges.
        FaultError (fault-not-judged): a worker process failed, or ended.
    """
    wanted = sorted({workload for fault in faults for workload in fault.workloads}) if untouched else []
    tasks: list[Task] = [("", workload) for workload in wanted]
    tasks += [(fault.slug, workload) for fault in faults for workload in fault.workloads]
    found: dict[Task, Observation] = {}
    for task, observation in _observed(tasks, jobs):
        found[task] = observation
        if told is not None:
            told(f"{task[0] or 'no fault'} in {task[1]}")
    results = [FaultResult(each, tuple(found[each.slug, workload] for workload in each.workloads)) for each in faults]
    return KillMatrix(tuple(results), tuple(found["", workload] for workload in wanted))


def _observed(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Observation]]:
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, observe(*task)
        return
    # Workers start afresh, so that they share no lock, no thread and no planted fault with this process.
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_observed_or_told, *task): task for task in tasks}
        try:
            for future in as_completed(futures):
                slug, workload = futures[future]
                try:
                    found = future.result()
                except BrokenProcessPool:
                    found = "a process that judges has ended"
                if isinstance(found, str):
                    raise FaultError(
                        "fault-not-judged", slug=slug or "the reference as it is", vehicle=str(workload), problem=found
                    )
                yield (slug, workload), found
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _observed_or_told(slug: str, workload: Workload) -> Observation | str:
    """Return what was seen, or what went wrong: not every error survives the way to another process."""
    try:
        return observe(slug, workload)
    except Exception as error:
        return one_line(error)
