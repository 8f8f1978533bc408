"""The judge of witnesses: did the run meet what makes its equalities mean something?

"the the the" equals "the the the" in every arm. So each prompt must give enough tokens, varied and clearly chosen;
the scripted draft must have met every length of acceptance, every offset of a stop and every small budget; rows must
really have left a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

import numpy as np

from cai_conformance.judges.decoder.reading import DecodeTrace, decode_trace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding

LEAST_PROMPTS = 3
LEAST_TOKENS = 32
LEAST_DISTINCT = 10
LEAST_MARGIN = 1e-4
BUDGETS = range(1, 6)
CASES = ("variety", "acceptance", "stops", "window")


def judge_witnesses(evidence: Evidence) -> tuple[Finding, ...]:
    """Say for each kind of witness whether it was met, and what was met."""
    if evidence.question.request.profile != "golden":
        return (Finding.skipped("the witnesses are those of the suite's own stories and size"),)
    trace = decode_trace(evidence)
    judged: dict[str, Callable[[DecodeTrace], tuple[list[str], str]]] = {
        "variety": _variety,
        "acceptance": _acceptance,
        "stops": _stops,
        "window": _window,
    }
    findings: list[Finding] = []
    for case, look in judged.items():
        problems, met = look(trace)
        findings.append(Finding.failed(problems[0], case=case) if problems else Finding.passed(met, case=case))
    return tuple(findings)


def _variety(trace: DecodeTrace) -> tuple[list[str], str]:
    found = trace.generations
    places = found.of_arm("full")
    if len(places) < LEAST_PROMPTS:
        return [f"DECODE: {len(places)} prompts, not {LEAST_PROMPTS}"], ""
    distinct, closest = [], []
    for place in places:
        record = found.record(place)
        ids, margins = record.integers("ids"), record.reals("margins")
        if len(ids) < LEAST_TOKENS:
            return [f"{record.label}: {len(ids)} new tokens, not {LEAST_TOKENS}"], ""
        distinct.append(len(set(ids)))
        if distinct[-1] < LEAST_DISTINCT:
            return [f"{record.label}: {distinct[-1]} distinct tokens, not {LEAST_DISTINCT}"], ""
        if not margins or min(margins) < LEAST_MARGIN:
            return [f"{record.label}: a choice by less than {LEAST_MARGIN}"], ""
        closest.append(min(margins))
    met = f"at least {min(distinct)} distinct tokens each, smallest margin {min(closest):.6f}"
    return [], f"{len(places)} prompts, {met}"


def _acceptance(trace: DecodeTrace) -> tuple[list[str], str]:
    block, passes = trace.size("block"), trace.passes
    full_blocks = (passes.arms == hash("scripted")) & np.asarray(passes.proposed == block, bool)
    met = set(passes.accepted[full_blocks].tolist())
    # A trace may state any block, so that lengths are looked for one by one, up to the first that is missing.
    missing = next((length for length in range(block + 1) if length not in met), None)
    problems = [] if missing is None else [f"DRAFT arm=scripted: no full block had {missing} accepted"]
    return problems, f"accepted lengths 0…{block} all occurred"


def _stops(trace: DecodeTrace) -> tuple[list[str], str]:
    block = trace.size("block")
    offsets = (f"scripted.eos-{offset}" for offset in range(block + 1))
    budgets = (f"scripted.budget-{budget}" for budget in BUDGETS)
    missing = next((arm for arm in chain(offsets, budgets) if not trace.generations.has_arm(arm)), None)
    if missing is not None:
        return [f"DECODE: no arm {missing}"], ""
    problems = list(islice(_wrong_offsets(trace, block), 1))
    return problems, f"a stop at each of {block + 1} offsets, and budgets 1…{BUDGETS[-1]}"


def _wrong_offsets(trace: DecodeTrace, block: int) -> Iterator[str]:
    """Yield the arms whose stop did not stand at the offset that they are named after."""
    passes = trace.passes
    for offset in range(block + 1):
        for group in passes.groups_of(f"scripted.eos-{offset}"):
            last = passes.record(passes.of_group(int(group))[-1])
            committed = last.integer("committed")
            if committed != offset + 1:
                arm = f"DRAFT arm={last.get('arm')} prompt={last.get('prompt')}"
                yield f"{arm}: the stop stood at offset {committed - 1}"


def _window(trace: DecodeTrace) -> tuple[list[str], str]:
    window = trace.size("window")
    if not window:
        return [], "no layer has a window to leave"
    longest = max((int(prefix) for (prefix,) in trace.trace.rows("CACHE", "prefix")), default=0)
    if longest <= window + trace.size("slack"):
        return [f"CACHE: the longest prefix, {longest}, never left a ring of {window} + {trace.size('slack')} rows"], ""
    return [], f"rows left a window of {window} in a sequence of {longest}"
