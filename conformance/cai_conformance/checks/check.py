"""A check, declared above the function that judges.

Names are for good: a check's name or one of its cases is never reused for something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.witness import Witness
from cai_conformance.verdicts import Level

Judge: TypeAlias = Callable[[Evidence], tuple[Finding, ...]]


@dataclass(frozen=True)
class Check:
    """One thing that is judged.

    Attributes:
        name: such as `tok.fit`; with the suite it makes the id `course.ngram::tok.fit`.
        level: where it stands in its track.
        summary: what passing means, in one line.
        explanation: what it compares, and what a failure usually means.
        judge: looks at the evidence; one finding a case.
        cases: the names of the cases, known before anything runs; empty where the check has none.
        requires: names of checks that must not have failed.
        needs_replay: whether it looks at a second run.
        of_edges: whether a trace that only answers vector cases can be judged by it.
        witnesses: what it must have met; a pass that did not is none. Its judge counts them by their names.
        catches: the seeded faults that it claims to kill, by slug; `family.*` stands for all of a family.
    """

    name: str
    level: Level
    summary: str
    explanation: str
    judge: Judge
    cases: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    needs_replay: bool = False
    of_edges: bool = False
    witnesses: tuple[Witness, ...] = ()
    catches: tuple[str, ...] = ()

    def __call__(self, evidence: Evidence) -> tuple[Finding, ...]:
        """Judge."""
        return self.judge(evidence)

    def of_cases(self, cases: tuple[str, ...]) -> Check:
        """Return the check with the cases that a suite has, and the witnesses that some of them need."""
        met = tuple(witness for witness in self.witnesses if any(map(witness.needed_in, cases)))
        return replace(self, cases=cases, witnesses=met)


def check(
    name: str,
    level: Level,
    summary: str,
    explanation: str,
    *,
    cases: tuple[str, ...] = (),
    requires: tuple[str, ...] = ("trace.format",),
    needs_replay: bool = False,
    of_edges: bool = False,
    witnesses: tuple[Witness, ...] = (),
    catches: str = "",
) -> Callable[[Judge], Check]:
    """Declare the check that a function of the evidence judges.

    The arguments are the attributes of a `Check`; the slugs of `catches` are separated by spaces.
    """

    def declared(judge: Judge) -> Check:
        slugs = tuple(catches.split())
        return Check(
            name, level, summary, explanation, judge, cases, requires, needs_replay, of_edges, witnesses, slugs
        )

    return declared
