"""The judge of witnesses: did the run meet what makes its equalities mean something?

"the the the" equals "the the the" in every arm. So each prompt must give enough tokens, varied and clearly chosen;
the scripted draft must have met every length of acceptance, every offset of a stop and every small budget; rows must
really have left a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from cai_conformance.judges.decoder.reading import DecodeTrace
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
    trace = DecodeTrace(evidence.main)
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
    records = trace.of_arm("full")
    problems = [] if len(records) >= LEAST_PROMPTS else [f"DECODE: {len(records)} prompts, not {LEAST_PROMPTS}"]
    for record in records:
        ids, margins = record.integers("ids"), record.reals("margins")
        if len(ids) < LEAST_TOKENS:
            problems.append(f"{record.label}: {len(ids)} new tokens, not {LEAST_TOKENS}")
        if len(set(ids)) < LEAST_DISTINCT:
            problems.append(f"{record.label}: {len(set(ids))} distinct tokens, not {LEAST_DISTINCT}")
        if not margins or min(margins) < LEAST_MARGIN:
            problems.append(f"{record.label}: a choice by less than {LEAST_MARGIN}")
    if problems:
        return problems, ""
    distinct = min(len(set(record.integers("ids"))) for record in records)
    closest = min(min(record.reals("margins")) for record in records)
    return [], f"{len(records)} prompts, at least {distinct} distinct tokens each, smallest margin {closest:.6f}"


def _acceptance(trace: DecodeTrace) -> tuple[list[str], str]:
    block = trace.size("block")
    met = {
        record.integer("accepted")
        for (arm, _), passes in trace.drafts.items()
        if arm == "scripted"
        for record in passes
        if record.integer("proposed") == block
    }
    # A trace may state any block, so that lengths are looked for one by one, up to the first that is missing.
    missing = next((length for length in range(block + 1) if length not in met), None)
    problems = [] if missing is None else [f"DRAFT arm=scripted: no full block had {missing} accepted"]
    return problems, f"accepted lengths 0…{block} all occurred"


def _stops(trace: DecodeTrace) -> tuple[list[str], str]:
    block = trace.size("block")
    offsets = (f"scripted.eos-{offset}" for offset in range(block + 1))
    budgets = (f"scripted.budget-{budget}" for budget in BUDGETS)
    met = {arm for arm, _ in trace.decodes}
    missing = next((arm for arm in chain(offsets, budgets) if arm not in met), None)
    if missing is not None:
        return [f"DECODE: no arm {missing}"], ""
    problems = list(_wrong_offsets(trace, block))
    return problems, f"a stop at each of {block + 1} offsets, and budgets 1…{BUDGETS[-1]}"


def _wrong_offsets(trace: DecodeTrace, block: int) -> Iterator[str]:
    """Yield the arms whose stop did not stand at the offset that they are named after."""
    for offset in range(block + 1):
        arm = f"scripted.eos-{offset}"
        for (name, prompt), passes in trace.drafts.items():
            if name == arm and passes and passes[-1].integer("committed") != offset + 1:
                yield f"DRAFT arm={arm} prompt={prompt}: the stop stood at offset {passes[-1].integer('committed') - 1}"


def _window(trace: DecodeTrace) -> tuple[list[str], str]:
    window = trace.size("window")
    if not window:
        return [], "no layer has a window to leave"
    longest = max((record.integer("prefix") for record in trace.trace.all("CACHE")), default=0)
    if longest <= window + trace.size("slack"):
        return [f"CACHE: the longest prefix, {longest}, never left a ring of {window} + {trace.size('slack')} rows"], ""
    return [], f"rows left a window of {window} in a sequence of {longest}"
