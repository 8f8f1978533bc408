"""The judge of decode arms: every arm generates what plain greedy re-encoding generates.

Tokens have to be equal in every arithmetic. Where bits mean something the logits have to be equal too, by their digest;
`absorbed` regroups sums and is exempt from that. An arm that is stopped early is held against the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cai_conformance.judges.columns import Integers, places_in
from cai_conformance.judges.decoder.generations import NOTHING, Generations
from cai_conformance.judges.decoder.reading import DecodeTrace, decode_trace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding, counted
from cai_conformance.judges.golden import Judge
from cai_conformance.trace.records import Record
from cai_conformance.verdicts import Difference, Problem

REGROUPED = frozenset({"absorbed"})
"""Arms whose logits agree to rounding only."""


def arms_equal(*arms: str) -> Judge:
    """Return a judge that compares arms with `full`, one finding an arm."""

    def judge(evidence: Evidence) -> tuple[Finding, ...]:
        trace = decode_trace(evidence)
        return tuple(_judge_arm(trace, arm) for arm in arms)

    return judge


def arms_stopped(kind: str, numbers: Sequence[int]) -> Judge:
    """Return a judge over the arms `kind-N`, which stop early by a budget or at a stop id, one finding a number."""

    def judge(evidence: Evidence) -> tuple[Finding, ...]:
        trace = decode_trace(evidence)
        return tuple(replace(_judge_stopped(trace, f"{kind}-{number}"), case=str(number)) for number in numbers)

    return judge


def _judge_arm(trace: DecodeTrace, arm: str) -> Finding:
    found = trace.generations
    places, wholes = found.of_arm(arm), found.of_arm("full")
    if not len(places):
        return Finding.skipped(f"the trace has no arm {arm}", case=arm)
    missing = wholes[places_in(found.prompts[places], found.prompts[wholes]) < 0]
    if len(missing):
        prompt = found.prompts[missing[0]]
        return Finding.failed(f"DECODE arm={arm} prompt={prompt}: missing, but arm full has it", case=arm)
    partners = found.full_of(places)
    different = np.flatnonzero((partners < 0) | ~_alike(found, places, partners, arm))
    if len(different):
        place, partner = places[different[0]], partners[different[0]]
        record = found.record(place)
        if partner < 0:
            return Finding.failed(f"{record.label}: there is no arm full for this prompt", case=arm)
        full = found.record(partner)
        difference = _first_token(record, full) or _logits(record, full)
        return Finding.failed(f"{difference}{_margin(full, difference)}", (difference,), case=arm)
    whole = arm not in REGROUPED and bool((found.logits[places] != NOTHING).all())
    what = counted(int(found.tokens[places].sum()), "token") + (" and their logits, bit for bit" if whole else "")
    return Finding.passed(f"{what}, equal to re-encoding over {counted(len(places), 'prompt')}", case=arm)


def _alike(found: Generations, places: Integers, partners: Integers, arm: str) -> npt.NDArray[np.bool_]:
    """Return which generations have the tokens of their partners, and the logits where these can be compared."""
    alike: npt.NDArray[np.bool_] = found.outcomes[places] == found.outcomes[partners]
    alike &= found.inputs[places] == found.inputs[partners]
    if arm not in REGROUPED:
        mine, theirs = found.logits[places], found.logits[partners]
        alike &= (mine == theirs) | (mine == NOTHING) | (theirs == NOTHING)
    return alike


def _first_token(record: Record, full: Record) -> Difference | None:
    """Return the first token that differs, or a difference of length or stop."""
    found, expected = record.integers("ids"), full.integers("ids")
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return Difference(Problem.VALUE, record.label, "ids", index, str(one), str(other))
    if len(found) != len(expected):
        lengths = f"{len(expected)} items", f"{len(found)} items"
        return Difference(Problem.SHAPE, record.label, "ids", None, *lengths)
    for field in ("prompt_ids", "stop"):
        if record.get(field) != full.get(field):
            return Difference(Problem.VALUE, record.label, field, None, full.get(field), record.get(field))
    return None


def _logits(record: Record, full: Record) -> Difference:
    return Difference(Problem.VALUE, record.label, "logits", None, full.get("logits"), record.get("logits"))


def _margin(full: Record, difference: Difference) -> str:
    """Return how decided the choice was at which the tokens part."""
    margins = full.reals("margins")
    if difference.field != "ids" or difference.index is None or difference.index >= len(margins):
        return ""
    return f"; re-encoding preferred its token by {margins[difference.index]:.6f}"


def _judge_stopped(trace: DecodeTrace, arm: str) -> Finding:
    found = trace.generations
    places = found.of_arm(arm)
    if not len(places):
        return Finding.skipped(f"the trace has no arm {arm}")
    kind, _, number = arm.rpartition("-")
    for place, partner in zip(places, found.full_of(places), strict=True):
        record = found.record(place)
        if partner < 0:
            return Finding.failed(f"{record.label}: there is no arm full for this prompt")
        truth, ids, stop = found.record(partner).integers("ids"), record.integers("ids"), record.get("stop")
        if kind.endswith("budget"):
            expected = truth[: int(number)]
            good_stop = stop in ("limit", "eos")
        else:
            # The stop id is the last one generated: it has to be its first occurrence.
            end = truth.index(ids[-1]) + 1 if ids and ids[-1] in truth else len(truth)
            expected = truth[:end]
            good_stop = stop == "eos"
        if ids != expected:
            shown = f"expected {expected}, found {ids}"
            difference = Difference(Problem.VALUE, record.label, "ids", None, str(expected), str(ids))
            return Finding.failed(f"{record.label}, field ids: {shown}", (difference,))
        if not good_stop:
            return Finding.failed(f"{record.label}, field stop: {stop}")
    return Finding.passed(f"stopped where it should over {counted(len(places), 'prompt')}")
