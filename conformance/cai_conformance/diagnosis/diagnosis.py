"""A difference, explained: a few lines for a report, and the same as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.diagnosis.distances import Disagreement
from cai_conformance.diagnosis.fits import Fit
from cai_conformance.diagnosis.runs import RunFinding
from cai_conformance.diagnosis.stages import Origin, StageFindings
from cai_conformance.diagnosis.training import TrainingFinding

MOST_LINES: Final = 6
MOST_CONVENTIONS: Final = 3


@dataclass(frozen=True)
class Diagnosis:
    """What is known about a difference.

    Attributes:
        lines: at most six, each a sentence without a stop; nothing where nothing is known.
        stage: where it begins: a stage of the forward pass, a part of a training step, or nothing.
        index: of the first value there.
        expected, found: both values; None where there are none.
        ulp: their distance in the backend's precision.
        origin: `added`, `inherited`, or nothing.
        conventions: the slugs of the mistakes that fit, best first, those of one fit joined by ` + `.
        titles: what they are in words.
    """

    lines: tuple[str, ...] = ()
    stage: str = ""
    index: tuple[int, ...] = ()
    expected: float | None = None
    found: float | None = None
    ulp: int | None = None
    origin: str = ""
    conventions: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines)


def diagnosis_of_stages(findings: StageFindings | None, fits: Sequence[Fit] = (), heading: str = "") -> Diagnosis:
    """Explain a difference of logits, full or cached.

    Args:
        findings: the stages, where any were shown.
        fits: the mistakes that give the rows.
        heading: a line in front, such as which call differs.
    """
    first = None if findings is None else findings.first_added or findings.first_different
    lines = [heading] if heading else []
    if findings is not None and findings.stages:
        lines.append(str(findings))
    if first is None:
        return _diagnosis(lines, fits)
    origin = "added" if first.origin is Origin.ADDED else "inherited"
    return _diagnosis(lines, fits, first.stage, first.shown, origin)


def diagnosis_of_training(finding: TrainingFinding) -> Diagnosis:
    """Explain the first part of a training that is wrong."""
    lines = [str(finding)]
    if finding.normalizers:
        lines.append(f"the loss fits: {finding.normalizers[0].name}")
    stage = f"{finding.part.value} of {finding.tensor}" if finding.tensor else finding.part.value
    return _diagnosis(lines, finding.fits, stage, finding.disagreement, "added")


def diagnosis_of_run(finding: RunFinding) -> Diagnosis:
    """Explain the losses of a whole run."""
    return _diagnosis([str(finding)], finding.fits, f"step {finding.step}")


def _diagnosis(
    lines: Sequence[str], fits: Sequence[Fit], stage: str = "", apart: Disagreement | None = None, origin: str = ""
) -> Diagnosis:
    named = [f"fits: {fit}" for fit in fits[:MOST_CONVENTIONS]]
    return Diagnosis(
        tuple([*lines, *named][:MOST_LINES]),
        stage,
        () if apart is None else apart.index,
        None if apart is None else apart.expected,
        None if apart is None else apart.found,
        None if apart is None else apart.narrow_ulp,
        origin,
        tuple(" + ".join(fit.slugs) for fit in fits),
        tuple(fit.title for fit in fits),
    )
