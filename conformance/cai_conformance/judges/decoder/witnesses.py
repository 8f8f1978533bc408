"""The judge of witnesses: did the run meet what makes its equalities mean something?

"the the the" equals "the the the" in every arm. So each prompt must give enough tokens, varied and clearly chosen;
the scripted draft must have met every length of acceptance, every offset of a stop and every small budget; rows must
really have left a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, takewhile
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.judges.decoder.reading import DecodeTrace, decode_trace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Met, Witness

LEAST_PROMPTS = 3
LEAST_TOKENS = 32
LEAST_DISTINCT = 10
LEAST_MARGIN = 1e-4
BUDGETS = range(1, 6)
CASES = ("variety", "acceptance", "stops", "window")

PROMPTS: Final = Witness("prompt", "prompts", LEAST_PROMPTS, ("variety",))
TOKENS: Final = Witness("token a prompt", "tokens a prompt", LEAST_TOKENS, ("variety",))
DISTINCT: Final = Witness("distinct token a prompt", "distinct tokens a prompt", LEAST_DISTINCT, ("variety",))
LENGTHS: Final = Witness("length of acceptance in whole blocks", "lengths of acceptance in whole blocks").of(
    "acceptance"
)
OFFSETS: Final = Witness("offset of a stop", "offsets of a stop").of("stops")
SMALL_BUDGETS: Final = Witness("small budget", "small budgets", len(BUDGETS), ("stops",))
LEFT: Final = Witness("row that left a ring", "rows that left a ring").of("window")
WINDOWLESS: Final = "no layer has a window to leave"

Seen: TypeAlias = tuple[list[str], str, list[Met]]
"""The problems, or, without any, what was met, in words and in numbers."""


def witnesses_of(block: int) -> tuple[Witness, ...]:
    """Return what a run has to meet whose blocks have so many guesses: every length and every offset."""
    of_blocks = LENGTHS.at_least(block + 1), OFFSETS.at_least(block + 1)
    return (PROMPTS, TOKENS, DISTINCT, *of_blocks, SMALL_BUDGETS, LEFT)


def judge_witnesses(evidence: Evidence) -> tuple[Finding, ...]:
    """Say for each kind of witness whether it was met, and what was met."""
    if evidence.question.request.profile != "golden":
        return (Finding.skipped("the witnesses are those of the suite's own stories and size"),)
    trace = decode_trace(evidence)
    judged: dict[str, Callable[[DecodeTrace], Seen]] = {
        "variety": _variety,
        "acceptance": _acceptance,
        "stops": _stops,
        "window": _window,
    }
    findings: list[Finding] = []
    for case, look in judged.items():
        if case == "window" and not trace.size("window"):
            findings.append(Finding.skipped(WINDOWLESS, case))
            continue
        problems, text, met = look(trace)
        findings.append(Finding.failed(problems[0], case=case) if problems else Finding.passed(text, case, met))
    return tuple(findings)


def _variety(trace: DecodeTrace) -> Seen:
    found = trace.generations
    places = found.of_arm("full")
    if len(places) < LEAST_PROMPTS:
        return [f"DECODE: {len(places)} prompts, not {LEAST_PROMPTS}"], "", []
    tokens, distinct, closest = [], [], []
    for place in places:
        record = found.record(place)
        ids, margins = record.integers("ids"), record.reals("margins")
        if len(ids) < LEAST_TOKENS:
            return [f"{record.label}: {len(ids)} new tokens, not {LEAST_TOKENS}"], "", []
        tokens.append(len(ids))
        distinct.append(len(set(ids)))
        if distinct[-1] < LEAST_DISTINCT:
            return [f"{record.label}: {distinct[-1]} distinct tokens, not {LEAST_DISTINCT}"], "", []
        if not margins or min(margins) < LEAST_MARGIN:
            return [f"{record.label}: a choice by less than {LEAST_MARGIN}"], "", []
        closest.append(min(margins))
    text = f"at least {min(distinct)} distinct tokens each, smallest margin {min(closest):.6f}"
    met = [PROMPTS.met(len(places)), TOKENS.met(min(tokens)), DISTINCT.met(min(distinct))]
    return [], f"{len(places)} prompts, {text}", met


def _acceptance(trace: DecodeTrace) -> Seen:
    block, passes = trace.size("block"), trace.passes
    full_blocks = (passes.arms == hash("scripted")) & np.asarray(passes.proposed == block, bool)
    met = set(passes.accepted[full_blocks].tolist())
    # A trace may state any block, so that lengths are looked for one by one, up to the first that is missing.
    missing = next((length for length in range(block + 1) if length not in met), None)
    problems = [] if missing is None else [f"DRAFT arm=scripted: no full block had {missing} accepted"]
    return problems, f"accepted lengths 0…{block} all occurred", [LENGTHS.met(len(met))]


def _stops(trace: DecodeTrace) -> Seen:
    block = trace.size("block")
    offsets = (f"scripted.eos-{offset}" for offset in range(block + 1))
    budgets = (f"scripted.budget-{budget}" for budget in BUDGETS)
    missing = next((arm for arm in chain(offsets, budgets) if not trace.generations.has_arm(arm)), None)
    if missing is not None:
        return [f"DECODE: no arm {missing}"], "", []
    problems = list(islice(_wrong_offsets(trace, block), 1))
    met = [OFFSETS.met(_stopped(trace, block)), SMALL_BUDGETS.met(len(BUDGETS))]
    return problems, f"a stop at each of {block + 1} offsets, and budgets 1…{BUDGETS[-1]}", met


def _stopped(trace: DecodeTrace, block: int) -> int:
    """Count the offsets of which there are passes; the first that is missing ends the count."""
    arms = (f"scripted.eos-{offset}" for offset in range(block + 1))
    return sum(1 for _ in takewhile(lambda arm: len(trace.passes.groups_of(arm)) > 0, arms))


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


def _window(trace: DecodeTrace) -> Seen:
    window, slack = trace.size("window"), trace.size("slack")
    longest = max((int(prefix) for (prefix,) in trace.trace.rows("CACHE", "prefix")), default=0)
    if longest <= window + slack:
        return [f"CACHE: the longest prefix, {longest}, never left a ring of {window} + {slack} rows"], "", []
    met = [LEFT.met(longest - window - slack)]
    return [], f"rows left a window of {window} in a sequence of {longest}", met
