"""A check of self-consistency: it compares an engine with itself, so that any model will do.

A suite asks it about the model that it gives, and `cai-conform probe` about a model folder of anybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cai_conformance.checks.check import Check
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import ProbeJudge, probing
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.witness import Witness
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.verdicts import Level


@dataclass(frozen=True)
class SelfCheck:
    """What a `Check` says, and a judge of any model under probe.

    Attributes:
        name, level, summary, explanation, cases: as those of `Check`.
        catches: as that of `Check`, slugs separated by spaces.
        judge: looks at a model in its engine.
        witnesses: what it must have met, whatever the model.
        requires: a check of the same kind that must not have failed; empty if there is none.
        of: what a suite's model must have to be asked: `recurrent`, `futures`, or nothing.
    """

    name: str
    level: Level
    summary: str
    explanation: str
    judge: ProbeJudge
    cases: tuple[str, ...]
    witnesses: tuple[Witness, ...]
    requires: str
    of: str
    catches: str

    def __call__(self, probe: Probe) -> tuple[Finding, ...]:
        """Judge a model that is loaded."""
        return self.judge(probe)

    def check(self) -> Check:
        """Return the check that a suite asks of its given model."""
        return Check(
            self.name,
            self.level,
            self.summary,
            self.explanation,
            probing(self.judge),
            self.cases,
            requires=(self.requires or "trace.convention",),
            of_edges=True,
            witnesses=self.witnesses,
            catches=tuple(self.catches.split()),
        )

    def belongs_to(self, phase: DecodePhase) -> bool:
        """Tell whether the model of a suite can be asked."""
        if self.of == "recurrent":
            return any("ssm" in name for name in phase.mixer_names)
        return phase.futures if self.of == "futures" else True


def self_check(
    name: str,
    level: Level,
    summary: str,
    explanation: str,
    *,
    cases: tuple[str, ...] = (),
    witnesses: tuple[Witness, ...],
    requires: str = "",
    of: str = "",
    catches: str = "",
) -> Callable[[ProbeJudge], SelfCheck]:
    """Declare the check that a function of a probe judges; the arguments are the attributes of a `SelfCheck`."""

    def declared(judge: ProbeJudge) -> SelfCheck:
        return SelfCheck(name, level, summary, explanation, judge, cases, witnesses, requires, of, catches)

    return declared
