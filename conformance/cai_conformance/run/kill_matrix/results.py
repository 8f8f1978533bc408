"""What is known of each fault after it was judged, and what of that is a problem.

Checks that kill no seeded fault, and why they stay: exactly these, which a test holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.faults.fault import Fault
from cai_conformance.faults.workload import Workload
from cai_conformance.run.kill_matrix.observation import Observation


class Standing(StrEnum):
    """How a fault fared."""

    KILLED = "killed"
    """A check that was expected to fail failed."""
    EQUIVALENT = "equivalent"
    """No answer changes, as was said, and no check failed."""
    UNSEEN = "unseen"
    """No check asks for what changes, as was said, and none failed."""
    SURVIVED = "survived"
    """No check failed."""
    CRASHED = "crashed"
    """Checks met a crash, and none failed."""
    UNEXPECTED = "unexpected"
    """Checks failed, and none of those that were expected to."""
    NOT_EQUIVALENT = "not equivalent"
    """A check failed, or met a crash, although no answer was to change, or none that is asked for."""


SOUND = frozenset({Standing.KILLED, Standing.EQUIVALENT, Standing.UNSEEN})
"""What is no problem."""


@dataclass(frozen=True)
class FaultResult:
    """One fault with what was seen of it.

    Attributes:
        fault: which.
        observations: one a workload, in the fault's order.
    """

    fault: Fault
    observations: tuple[Observation, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of all checks that failed in any workload, sorted."""
        return tuple(sorted({name for each in self.observations for name in each.failed}))

    @property
    def killed_by(self) -> tuple[str, ...]:
        """Those of them that were expected to, in the order in which they were expected."""
        return tuple(name for name in self.fault.expected if name in self.failed)

    @property
    def also_seen_by(self) -> tuple[str, ...]:
        """Those of them that were not expected to."""
        return tuple(name for name in self.failed if name not in self.fault.expected)

    @property
    def standing(self) -> Standing:
        """How the fault fared."""
        errored = any(each.errored for each in self.observations)
        if self.fault.equivalent or self.fault.unseen:
            quiet = Standing.EQUIVALENT if self.fault.equivalent else Standing.UNSEEN
            return Standing.NOT_EQUIVALENT if self.failed or errored else quiet
        if self.killed_by:
            return Standing.KILLED
        if self.failed:
            return Standing.UNEXPECTED
        return Standing.CRASHED if errored else Standing.SURVIVED

    def without(self, check: str) -> Standing:
        """Return how the fault would have fared if a check did not exist."""
        if self.standing is not Standing.KILLED or any(name != check for name in self.killed_by):
            return self.standing
        return Standing.UNEXPECTED if any(name != check for name in self.failed) else Standing.SURVIVED

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, in sentences: the fate of the fault, then workloads in which nothing shows."""
        slug = self.fault.slug
        match self.standing:
            case Standing.SURVIVED if self.fault.library:
                # The library of this machine computes the bits of strict/1 here.
                pass
            case Standing.SURVIVED:
                yield f"{slug} survived: no check failed in {_listed(each.workload for each in self.observations)}"
            case Standing.CRASHED:
                yield f"{slug} only crashed: no check failed, and {_errored(self.observations)} met an error"
            case Standing.UNEXPECTED:
                expected = ", ".join(self.fault.expected)
                yield f"{slug} is killed by {', '.join(self.failed)} alone, where {expected} was expected to fail"
            case Standing.NOT_EQUIVALENT:
                seen = ", ".join(self.failed) or _errored(self.observations)
                said = "change nothing" if self.fault.equivalent else "be asked for by no check"
                yield f"{slug} is said to {said}, and {seen} saw it"
            case Standing.KILLED:
                for each in self.observations:
                    if not each.failed:
                        yield f"{slug} does not show in {each.workload}, which is one of its vehicles"
            case Standing.EQUIVALENT | Standing.UNSEEN:
                pass


@dataclass(frozen=True)
class KillMatrix:
    """All faults that were judged, and the workloads without a fault.

    Attributes:
        results: one a fault, in the order of the catalogue.
        untouched: what is said of the reference as it is, one a workload.
    """

    results: tuple[FaultResult, ...]
    untouched: tuple[Observation, ...] = ()

    def problems(self) -> tuple[str, ...]:
        """Return everything that is wrong, the reference as it is first."""
        return (
            *(
                f"{each.workload}: {', '.join((*each.failed, *each.errored))} did not pass without a fault"
                for each in self.untouched
                if each.failed or each.errored
            ),
            *(problem for result in self.results for problem in result.problems()),
        )

    def kills(self) -> Mapping[str, tuple[str, ...]]:
        """Return, for each check that failed for a fault that is none of the equivalent ones, these faults."""
        seen: dict[str, list[str]] = {}
        for result in self.results:
            for name in result.failed:
                seen.setdefault(name, []).append(result.fault.slug)
        return {name: tuple(slugs) for name, slugs in sorted(seen.items())}

    def kills_alone(self) -> Mapping[str, tuple[str, ...]]:
        """Return, for each check that alone fails for a fault, these faults: without it they would survive."""
        alone: dict[str, list[str]] = {}
        for result in self.results:
            if len(result.failed) == 1:
                alone.setdefault(result.failed[0], []).append(result.fault.slug)
        return {name: tuple(slugs) for name, slugs in sorted(alone.items())}

    def lost_without(self, check: str) -> tuple[FaultResult, ...]:
        """Return the faults that are killed, and would not be if a check did not exist."""
        return tuple(
            result
            for result in self.results
            if result.standing is Standing.KILLED and result.without(check) is not Standing.KILLED
        )


def _listed(workloads: Iterable[Workload]) -> str:
    return ", ".join(map(str, workloads)) or "no suite"


def _errored(observations: Iterable[Observation]) -> str:
    return ", ".join(sorted({name for each in observations for name in each.errored}))


IDLE: Final[Mapping[str, str]] = {
    "kv.poison": "asked of engines whose unowned memory can be filled, which the reference is not",
    "kv.fail": "asked of engines that can be made to fail within a call, which the reference is not",
    "published.text": "judged only on the published corpus, which does not come with the suites",
    "published.bits": "judged only on the published corpus, with the C library that its digests were measured on",
}
"""By name."""
