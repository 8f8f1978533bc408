"""Where in a forward pass a backend goes wrong: stage by stage, each judged twice.

*Overall*, a stage is compared with the reference's own pass: this tells how far apart the two are by then. *Locally*,
the reference computes the stage from the backend's own earlier stages (teacher forcing): this tells whether the stage
itself is wrong. A stage that differs overall and not locally has inherited its difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cai_conformance.diagnosis.distances import Disagreement, measured, scale_of
from cai_conformance.diagnosis.passes import reference_pass, without_batch_axis
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.models.stack import DecoderStack


class Origin(StrEnum):
    """Where the difference of a stage comes from."""

    EQUAL = "equal"
    INHERITED = "inherited"
    ADDED = "added here"


@dataclass(frozen=True)
class StageFinding:
    """One stage.

    Attributes:
        stage: its name.
        origin: equal, inherited or added here.
        overall: the backend against the reference's own pass; None where shapes differ.
        local: the backend against the reference on the backend's own earlier stages; None where there is none.
        problem: what keeps values from being compared, such as another shape; empty where nothing does.
    """

    stage: str
    origin: Origin
    overall: Disagreement | None
    local: Disagreement | None
    problem: str = ""

    @property
    def shown(self) -> Disagreement | None:
        """The comparison that says most: the local one where the difference is added here."""
        return self.local if self.origin is Origin.ADDED and self.local is not None else self.overall

    def __str__(self) -> str:
        if self.problem:
            return f"{self.stage}: {self.origin.value}, {self.problem}"
        return f"{self.stage}: {self.origin.value}" + ("" if self.origin is Origin.EQUAL else f", {self.shown}")


@dataclass(frozen=True)
class StageFindings:
    """All stages that a backend showed, in the order of computing.

    Attributes:
        stages: one finding each.
        unknown: names that the reference does not have.
        missing: stages of the reference that were not shown.
    """

    stages: tuple[StageFinding, ...]
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def first_added(self) -> StageFinding | None:
        """The first stage that is wrong by itself."""
        return next((stage for stage in self.stages if stage.origin is Origin.ADDED), None)

    @property
    def first_different(self) -> StageFinding | None:
        """The first stage that differs, wherever that comes from."""
        return next((stage for stage in self.stages if stage.origin is not Origin.EQUAL), None)

    def __str__(self) -> str:
        if not self.stages:
            return "no stage was shown"
        first = self.first_added or self.first_different
        if first is None:
            return f"all {len(self.stages)} stages agree"
        before = self.stages.index(first)
        agree = sum(stage.origin is Origin.EQUAL for stage in self.stages[:before])
        lead = "" if before == 0 else f" after {agree} of {before} that agree"
        return f"first stage that {'goes wrong' if first.origin is Origin.ADDED else 'differs'}{lead}: {first}"


def stage_findings(
    model: DecoderStack,
    ids: Sequence[int],
    start: int,
    stages: Mapping[str, Array],
    arithmetic: Arithmetic,
    floor: float,
    precision: str = "float64",
) -> StageFindings:
    """Judge the stages that a backend showed of one full pass.

    Args:
        model: the reference's, with the given weights.
        ids: the sequence.
        start: the position of its first token.
        stages: by the reference's names; some may be missing, and a batch axis of length 1 may stand in front.
        arithmetic: in which the reference computes.
        floor: up to which difference values count as equal, where values are at most 1; in proportion for larger ones.
        precision: the format that the backend computes in.
    """
    whole = reference_pass(model, ids, start, arithmetic)
    shown = {name: without_batch_axis(name, value, whole) for name, value in stages.items() if name in whole}
    local = reference_pass(model, ids, start, arithmetic, shown)
    findings: list[StageFinding] = []
    lost = False
    for name in whole:
        if name in shown:
            findings.append(judged(name, whole[name], local.get(name), shown[name], floor, precision, lost=lost))
            lost = lost or not np.isfinite(shown[name]).all()
    return StageFindings(
        tuple(findings),
        tuple(name for name in stages if name not in whole),
        tuple(name for name in whole if name not in shown),
    )


def judged(
    name: str, whole: Array, local: Array | None, found: Array, floor: float, precision: str, *, lost: bool
) -> StageFinding:
    """Judge one stage.

    Args:
        name: of the stage.
        whole: the reference's own.
        local: the reference's from what was shown before; None where that left the range of numbers.
        found: the backend's.
        floor: as in `stage_findings`.
        precision: as in `stage_findings`.
        lost: whether an earlier stage held what is no number, so that nothing is judged by itself any more.
    """
    if found.shape != whole.shape:
        problem = f"expected shape {list(whole.shape)}, found {list(found.shape)}"
        return StageFinding(name, Origin.ADDED, None, None, problem)
    overall = measured(whole, found, floor * scale_of(whole), precision)
    if local is None or lost:
        return StageFinding(name, Origin.EQUAL if overall.agrees else Origin.INHERITED, overall, None)
    by_itself = measured(local, found, floor * scale_of(local), precision)
    if not by_itself.agrees:
        return StageFinding(name, Origin.ADDED, overall, by_itself)
    return StageFinding(name, Origin.EQUAL if overall.agrees else Origin.INHERITED, overall, by_itself)
