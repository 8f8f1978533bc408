"""At which stage a cache goes wrong: a backend's cached call against its own full pass over the same tokens.

No oracle is needed to see that the two differ. To see where it begins, the reference computes each stage of the newest
rows from the cached call's own earlier stages, with the older rows of the full pass, which the cache should hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cai_conformance.diagnosis.passes import reference_pass, without_batch_axis
from cai_conformance.diagnosis.stages import Origin, StageFinding, StageFindings, judged
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.models.stack import DecoderStack

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
