"""The judges of speculation counters: recounted from the DRAFT records, never believed."""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.judges.decoder.reading import DecodeTrace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.trace.records import Record

ONE_TOKEN_PREFILL = frozenset({"cached", "latent", "absorbed", "mtp-cached"})
DRAFTING_BY_MODEL = frozenset({"draft", "self-draft"})


def judge_counters(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount tokens, passes, forwards and rolled-back rows of every arm and prompt."""
    trace = DecodeTrace(evidence.main)
    problems = [
        problem
        for (arm, prompt), record in trace.decodes.items()
        for problem in _problems(trace, arm, record, trace.drafts.get((arm, prompt), []))
    ]
    problems += [
        f"DRAFT arm={arm} prompt={prompt}: there is no DECODE record for it"
        for arm, prompt in trace.drafts
        if (arm, prompt) not in trace.decodes
    ]
    if problems:
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return (Finding.failed(problems[0] + rest),)
    passes = sum(map(len, trace.drafts.values()))
    return (Finding.passed(f"{len(trace.decodes)} generations and {passes} passes add up"),)


def judge_identical_drafts(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the passes of `mtp-full` and `mtp-cached`: a cache must not change what is guessed or accepted."""
    trace = DecodeTrace(evidence.main)
    checked = 0
    for (arm, prompt), passes in trace.drafts.items():
        if arm != "mtp-full":
            continue
        other = trace.drafts.get(("mtp-cached", prompt), [])
        mine, theirs = ([_counts(record) for record in records] for records in (passes, other))
        if mine != theirs:
            place = next(
                (n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]),
                min(len(mine), len(theirs)),
            )
            return (Finding.failed(f"DRAFT arm=mtp-cached prompt={prompt} pass={place}: other counters than mtp-full"),)
        checked += len(mine)
    if not checked:
        return (Finding.skipped("the trace has no passes of mtp-full"),)
    return (Finding.passed(f"{checked} passes with identical counters"),)


def judge_self_draft(evidence: Evidence) -> tuple[Finding, ...]:
    """Ask whether a model that drafts for itself is always right."""
    trace = DecodeTrace(evidence.main)
    passes = [record for (arm, _), records in trace.drafts.items() if arm == "self-draft" for record in records]
    if not passes:
        return (Finding.skipped("the trace has no arm self-draft"),)
    for record in passes:
        proposed, accepted = record.integer("proposed"), record.integer("accepted")
        if accepted != proposed:
            return (Finding.failed(f"{record.label}: {accepted} of {proposed} own guesses were accepted"),)
    total = sum(record.integer("proposed") for record in passes)
    return (Finding.passed(f"all {total} own guesses were accepted"),)


def _problems(trace: DecodeTrace, arm: str, record: Record, passes: list[Record]) -> Iterator[str]:
    tokens, margins = len(record.integers("ids")), len(record.reals("margins"))
    if margins != tokens:
        yield f"{record.label}, field margins: {margins} for {tokens} tokens"
    prefill = _prefill(trace, arm, len(record.integers("prompt_ids")))
    calls = len(passes) if passes else tokens
    if record.integer("forwards") != prefill + calls:
        yield f"{record.label}, field forwards: {record.get('forwards')}, but {prefill} + {calls} were needed"
    proposed = sum(found.integer("proposed") for found in passes)
    drafted = proposed if arm in DRAFTING_BY_MODEL else 0
    if record.integer("draft_forwards") != drafted:
        yield f"{record.label}, field draft_forwards: {record.get('draft_forwards')}, but {drafted} guesses were made"
    committed = sum(found.integer("committed") for found in passes)
    if passes and committed != tokens:
        yield f"{record.label}: its passes committed {committed} tokens, it has {tokens}"
    block = trace.size("futures") - 1 if arm.startswith("mtp") else trace.size("block")
    for place, found in enumerate(passes):
        yield from _pass_problems(found, place, block, last=place == len(passes) - 1)


def _pass_problems(record: Record, place: int, block: int, *, last: bool) -> Iterator[str]:
    if record.integer("pass") != place:
        yield f"{record.label}: pass {place} is missing"
    proposed, accepted, committed, rolled_back = _counts(record)
    if not 0 <= accepted <= proposed <= block:
        yield f"{record.label}: {accepted} accepted of {proposed} proposed, in blocks of {block}"
    # A stop may end a pass with its last accepted guess; any other pass commits one token more.
    if committed != accepted + 1 and not (last and committed == accepted):
        yield f"{record.label}, field committed: {committed} with {accepted} accepted"
    if rolled_back != proposed + 1 - committed:
        yield f"{record.label}, field rolled_back: {rolled_back}, but {proposed + 1} were fed and {committed} kept"


def _counts(record: Record) -> tuple[int, int, int, int]:
    proposed, accepted = record.integer("proposed"), record.integer("accepted")
    return proposed, accepted, record.integer("committed"), record.integer("rolled_back")


def _prefill(trace: DecodeTrace, arm: str, prompt: int) -> int:
    """Return how many calls the prompt needs before the first token."""
    if arm in ("full", "mtp-full"):
        return 0
    chunk = 1 if arm in ONE_TOKEN_PREFILL else trace.size("chunk")
    # A chunk below 1 is a contradiction of CONFIG, which another judge reports.
    return -(-(prompt - 1) // max(1, chunk))
