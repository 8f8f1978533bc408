"""Running the checks of self-consistency on a model of anybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar, cast

from cai_conformance.checks.finding import Finding, witnessed
from cai_conformance.checks.probe.driven import probed
from cai_conformance.checks.probe.probe import Probe, Rounding, bounded_starts
from cai_conformance.checks.probe.self_check import SelfCheck
from cai_conformance.checks.rows import EXACT_ARITHMETIC
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.policy import Policy
from cai_conformance.engine import Engine, Refused
from cai_conformance.errors import BackendError
from cai_conformance.run.probe.floor import own_floor
from cai_conformance.run.probe.folder import ProbedFolder
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import WALL, Outcome, Verdict

NAME: Final = "probe"
"""What stands before `::` in the ids of these checks."""
STOPPING: Final = frozenset({Outcome.FAIL, Outcome.ERRORED, Outcome.BLOCKED})

Value = TypeVar("Value")


@dataclass
class Kept:
    """What the judges of one probe share."""

    values: dict[str, object] = field(default_factory=dict)

    def remembered(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return what was computed under a name, or compute it now."""
        if name not in self.values:
            self.values[name] = compute()
        return cast("Value", self.values[name])


def probe_of_folder(engine: Engine, folder: Path, policy: Policy) -> Probe:
    """Put a model folder under probe.

    Raises:
        InputError (folder-unreadable): there is no folder, or its settings cannot be read.
    """
    model, kept = ProbedFolder(engine, folder), Kept()

    def floor() -> NoiseFloor:
        return kept.remembered("floor", lambda: own_floor(probe, model))

    def used() -> NoiseFloor | None:
        found = kept.values.get("floor")
        return found if isinstance(found, NoiseFloor) else None

    def of_starts() -> NoiseFloor:
        description = engine.description
        exact = description.arithmetic == EXACT_ARITHMETIC
        return bounded_starts(description.precision.coarsest) if exact else floor()

    probe = Probe(model, model.facts, policy, Rounding(floor, of_starts, used), kept)
    return probe


def probe_ids(checks: Sequence[SelfCheck] = SELF_CHECKS) -> tuple[str, ...]:
    """Return every id, `probe::check` or `probe::check[case]`, in the order of judging."""
    return tuple(_identifier(check, case) for check in checks for case in check.cases or ("",))


def probed_verdicts(
    probe: Probe, selected: Callable[[str], bool], checks: Sequence[SelfCheck] = SELF_CHECKS
) -> Iterator[Verdict]:
    """Judge a model, and yield each verdict as it is found.

    Args:
        probe: the model.
        selected: which ids are reported.
        checks: in the order of judging.
    """
    outcomes: dict[str, set[Outcome]] = {}
    wanted = {
        check.name for check in checks if any(selected(_identifier(check, case)) for case in check.cases or ("",))
    }
    wanted |= {check.requires for check in checks if check.name in wanted}
    for check in checks:
        if check.name not in wanted:
            continue
        begun = WALL()
        findings = _findings(probe, check, outcomes)
        outcomes[check.name] = {finding.outcome for finding in findings}
        seconds = (WALL() - begun) / len(findings)
        for finding in findings:
            identifier = _identifier(check, finding.case)
            if selected(identifier):
                yield Verdict(
                    identifier,
                    check.level,
                    finding.outcome,
                    finding.message,
                    finding.differences,
                    seconds=seconds,
                    met=tuple((each.witness.many, each.count) for each in finding.met),
                )


def _findings(probe: Probe, check: SelfCheck, outcomes: dict[str, set[Outcome]]) -> tuple[Finding, ...]:
    if outcomes.get(check.requires, set()) & STOPPING:
        text = f"{check.requires} did not pass, so there is nothing sound to judge"
        return _of_every_case(check, Finding(Outcome.BLOCKED, text))
    try:
        found = probed(check.judge, probe)
    except Refused as error:
        found = (Finding.skipped(str(error)),)
    except BackendError as error:
        found = (Finding(Outcome.ERRORED, str(error)),)
    found = _of_every_case(check, found[0]) if not found[0].case else found
    return tuple(witnessed(finding, check.witnesses) for finding in found)


def _of_every_case(check: SelfCheck, finding: Finding) -> tuple[Finding, ...]:
    return tuple(replace(finding, case=case) for case in check.cases or ("",))


def _identifier(check: SelfCheck, case: str) -> str:
    return f"{NAME}::{check.name}" + (f"[{case}]" if case else "")
