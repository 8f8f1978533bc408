"""The reference's forward pass with its stages, alone or fed with what a backend showed.

Where in a forward pass a backend goes wrong: stage by stage, each judged twice.

*Overall*, a stage is compared with the reference's own pass: this tells how far apart the two are by then. *Locally*,
the reference computes the stage from the backend's own earlier stages (teacher forcing): this tells whether the stage
itself is wrong. A stage that differs overall and not locally has inherited its difference.

At which stage a cache goes wrong: a backend's cached call against its own full pass over the same tokens.

No oracle is needed to see that the two differ. To see where it begins, the reference computes each stage of the newest
rows from the cached call's own earlier stages, with the older rows of the full pass, which the cache should hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cai_conformance.diagnosis.distances import Disagreement, measured, scale_of
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.errors import CaiReferenceError
from cai_reference.models.stack import DecoderStack


def reference_pass(
    model: DecoderStack,
    ids: Sequence[int],
    start: int,
    arithmetic: Arithmetic,
    shown: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Run one sequence and return every stage, in order, without the batch axis.

    Args:
        model: with the given weights.
        ids: the sequence.
        start: the position of its first token.
        arithmetic: in which the reference computes.
        shown: what stands in the place of a stage once that stage was computed, by name and of its shape. So each
            stage is computed from what was shown of the earlier ones, and a mistake does not spread. What is not
            finite is not put in place.

    Returns:
        The stages as computed; those behind a number that left the range of binary64 are missing.
    """
    kept: dict[str, Array] = {}
    forced = shown or {}

    def observe(name: str, value: Variable) -> None:
        kept[name] = value.value[0]
        found = forced.get(name)
        if found is not None and found.shape == value.value.shape[1:] and np.isfinite(found).all():
            replacement = np.array(found, dtype=np.float64)[None]
            replacement.flags.writeable = False
            value.value = replacement

    try:
        model.forward(Tape(arithmetic, recording=False), list(ids), 1, start, observe)
    except CaiReferenceError:
        # What was shown may lead anywhere; the stages up to there are what is asked for.
        if shown is None:
            raise
    return kept


def without_batch_axis(name: str, found: Array, expected: Mapping[str, Array]) -> Array:
    """Return a stage without the axis of length 1 that a backend may have left in front."""
    array = np.asarray(found, dtype=np.float64)
    shape = expected[name].shape
    return array[0] if array.shape == (1, *shape) else array


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


WHOLE_WEIGHT = 0.999
"""What weights must add up to, at least, to be those of all keys that a token sees."""


def session_findings(
    model: DecoderStack,
    ids: Sequence[int],
    start: int,
    whole: Mapping[str, Array],
    cached: Mapping[str, Array],
    arithmetic: Arithmetic,
    floor: float,
    precision: str = "float64",
) -> StageFindings:
    """Judge the stages of a cached call for the last tokens of a sequence.

    Args:
        model: the reference's, with the given weights.
        ids: everything that the cache should hold after the call.
        start: the position of the first token.
        whole: the backend's stages of a full pass over `ids`, by the reference's names.
        cached: its stages of the call that fed the last tokens of `ids`, their rows only. Weights may have a column for
            each visible key, for each token that was fed, or for each token of this call.
        arithmetic: in which the reference computes.
        floor: as in `stage_findings`.
        precision: the format that the backend computes in.
    """
    reference = reference_pass(model, ids, start, arithmetic)
    full = {name: without_batch_axis(name, value, reference) for name, value in whole.items() if name in reference}
    pairs: dict[str, tuple[Array, Array]] = {}
    problems: dict[str, str] = {}
    for name in reference:
        if name not in full or name not in cached or full[name].shape != reference[name].shape:
            continue
        newest = _without_batch_axis(cached[name], full[name].ndim)
        problem = _problem(name, full[name], newest)
        if problem:
            problems[name] = problem
        else:
            pairs[name] = (full[name], _merged(name, full[name], newest))
    local = reference_pass(model, ids, start, arithmetic, {name: merged for name, (_, merged) in pairs.items()})
    findings: list[StageFinding] = []
    lost = False
    for name in reference:
        if name in problems:
            findings.append(StageFinding(name, Origin.ADDED, None, None, problems[name]))
        elif name in pairs:
            expected, merged = pairs[name]
            rows = _without_batch_axis(cached[name], expected.ndim).shape[-2]
            computed = None if name not in local else local[name][..., -rows:, :]
            finding = judged(
                name, expected[..., -rows:, :], computed, merged[..., -rows:, :], floor, precision, lost=lost
            )
            findings.append(finding)
            lost = lost or not np.isfinite(merged).all()
    judged_names = {finding.stage for finding in findings}
    return StageFindings(
        tuple(findings),
        tuple(name for name in cached if name not in reference),
        tuple(name for name in reference if name not in judged_names),
    )


def _without_batch_axis(found: Array, axes: int) -> Array:
    array = np.asarray(found, dtype=np.float64)
    return array[0] if array.ndim == axes + 1 and array.shape[0] == 1 else array


def _is_over_keys(name: str) -> bool:
    return name.endswith(".weights")


def _problem(name: str, full: Array, newest: Array) -> str:
    """Say what keeps a cached stage from being laid over the full one."""
    rows = newest.shape[-2] if newest.ndim > 1 else 0
    width = newest.shape[-1] if newest.ndim else 0
    expected = (*full.shape[:-2], rows, width if _is_over_keys(name) else full.shape[-1])
    if newest.shape != expected or not 0 < rows <= full.shape[-2]:
        return f"the full pass has shape {list(full.shape)}, the cached call {list(newest.shape)}"
    if width > full.shape[-1]:
        return f"{width} keys are attended to, where there are {full.shape[-1]} tokens"
    return ""


def _merged(name: str, full: Array, newest: Array) -> Array:
    """Lay the newest rows over the full pass; keys that are not there are not attended to, unless weight is missing."""
    merged = full.copy()
    rows, width = newest.shape[-2:]
    if _is_over_keys(name) and bool(np.all(np.add.reduce(newest, axis=-1) > WHOLE_WEIGHT)):
        merged[..., -rows:, :] = 0.0
    merged[..., -rows:, -width:] = newest
    return merged
