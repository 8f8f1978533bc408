"""The judges of speculation counters: recounted from the DRAFT records, never believed."""

from __future__ import annotations

import numpy as np

from cai_conformance.judges.decoder.reading import decode_trace
from cai_conformance.judges.decoder.recount import recount
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding


def judge_counters(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount tokens, passes, forwards and rolled-back rows of every arm and prompt."""
    trace = decode_trace(evidence)
    count, first = recount(trace)
    if count:
        rest = f" (and {count - 1} more)" if count > 1 else ""
        return (Finding.failed(first + rest),)
    text = f"{len(trace.generations.keys)} generations and {len(trace.passes.keys)} passes add up"
    return (Finding.passed(text),)


def judge_identical_drafts(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the passes of `mtp-full` and `mtp-cached`: a cache must not change what is guessed or accepted."""
    passes = decode_trace(evidence).passes
    checked = 0
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
    if not checked:
        return (Finding.skipped("the trace has no passes of mtp-full"),)
    return (Finding.passed(f"{checked} passes with identical counters"),)


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
    return (Finding.passed(f"all {passes.proposed[places].sum()} own guesses were accepted"),)
