"""The judges of speculation counters: recounted from the DRAFT records, never believed."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.judges.decoder.reading import decode_trace
from cai_conformance.judges.decoder.recount import recount
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness

GENERATIONS: Final = Witness("generation", "generations")
PASSES: Final = Witness("pass", "passes")
GUESSES: Final = Witness("guess", "guesses")
REJECTED: Final = Witness("rejected guess", "rejected guesses")
ROLLED_BACK: Final = Witness("row rolled back", "rows rolled back")


def judge_counters(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount tokens, passes, forwards and rolled-back rows of every arm and prompt."""
    trace = decode_trace(evidence)
    count, first = recount(trace)
    if count:
        rest = f" (and {count - 1} more)" if count > 1 else ""
        return (Finding.failed(first + rest),)
    text = f"{len(trace.generations.keys)} generations and {len(trace.passes.keys)} passes add up"
    passes = trace.passes
    met = [
        GENERATIONS.met(len(trace.generations.keys)),
        PASSES.met(len(passes.keys)),
        REJECTED.met((passes.proposed - passes.accepted).sum()),
        ROLLED_BACK.met(passes.rolled_back.sum()),
    ]
    return (Finding.passed(text, met=met),)


def judge_identical_drafts(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the passes of `mtp-full` and `mtp-cached`: a cache must not change what is guessed or accepted."""
    passes = decode_trace(evidence).passes
    checked = rejected = 0
    for group in passes.groups_of("mtp-full"):
        prompt = passes.record(passes.firsts[group]).get("prompt")
        mine, theirs = passes.of_group(int(group)), passes.of_group(passes.group("mtp-cached", prompt))
        common = min(len(mine), len(theirs))
        alike = np.ones(common, bool)
        for column in (passes.proposed, passes.accepted, passes.committed, passes.rolled_back):
            alike &= np.asarray(column[mine[:common]] == column[theirs[:common]], bool)
        if len(mine) != len(theirs) or not alike.all():
            place = common if alike.all() else int(np.argmin(alike))
            return (Finding.failed(f"DRAFT arm=mtp-cached prompt={prompt} pass={place}: other counters than mtp-full"),)
        checked += common
        rejected += int((passes.proposed[mine] - passes.accepted[mine]).sum())
    if not checked:
        return (Finding.skipped("the trace has no passes of mtp-full"),)
    text = f"{checked} passes with identical counters"
    return (Finding.passed(text, met=[PASSES.met(checked), REJECTED.met(rejected)]),)


def judge_self_draft(evidence: Evidence) -> tuple[Finding, ...]:
    """Ask whether a model that drafts for itself is always right."""
    passes = decode_trace(evidence).passes
    places = passes.of_groups(passes.groups_of("self-draft"))
    if not len(places):
        return (Finding.skipped("the trace has no arm self-draft"),)
    refused = np.flatnonzero(passes.accepted[places] != passes.proposed[places])
    if len(refused):
        record = passes.record(places[refused[0]])
        text = f"{record.get('accepted')} of {record.get('proposed')} own guesses were accepted"
        return (Finding.failed(f"{record.label}: {text}"),)
    guesses = passes.proposed[places].sum()
    return (Finding.passed(f"all {guesses} own guesses were accepted", met=[GUESSES.met(guesses)]),)
