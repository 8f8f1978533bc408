"""The judge of witnesses: did the run meet what makes its equalities mean something?

"the the the" equals "the the the" in every arm. So each prompt must give enough tokens, varied and clearly chosen;
the scripted draft must have met every length of acceptance, every offset of a stop and every small budget; rows must
really have left a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    missing = sorted(set(range(block + 1)) - met)
    problems = [f"DRAFT arm=scripted: no full block had {length} accepted" for length in missing]
    return problems, f"accepted lengths 0…{block} all occurred"


def _stops(trace: DecodeTrace) -> tuple[list[str], str]:
    offsets = [f"scripted.eos-{offset}" for offset in range(trace.size("block") + 1)]
    budgets = [f"scripted.budget-{budget}" for budget in BUDGETS]
    problems = [f"DECODE: no arm {arm}" for arm in (*offsets, *budgets) if not trace.of_arm(arm)]
    problems += list(_wrong_offsets(trace, offsets))
    return problems, f"a stop at each of {len(offsets)} offsets, and budgets 1…{BUDGETS[-1]}"


def _wrong_offsets(trace: DecodeTrace, arms: list[str]) -> Iterator[str]:
    """Yield the arms whose stop did not stand at the offset that they are named after."""
    for offset, arm in enumerate(arms):
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
