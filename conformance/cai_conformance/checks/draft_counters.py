"""The counters of speculation: recounted from the DRAFT records, never believed.

All records are looked at together, column by column. Only of the first that is wrong a sentence is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cai_conformance.checks.check import check
from cai_conformance.checks.contradictions import Integers, fitting, places_in
from cai_conformance.checks.decode_trace import DecodeTrace, decode_trace
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.witness import Witness
from cai_conformance.verdicts import Level

ONE_TOKEN_PREFILL = frozenset({"cached", "latent", "absorbed", "mtp-cached"})
DRAFTING_BY_MODEL = frozenset({"draft", "self-draft"})

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wrong:
    """Which records contradict one rule, and the sentence about one of them, by its place."""

    records: Mask
    sentence: Callable[[int], str]


def recount(trace: DecodeTrace) -> tuple[int, str]:
    """Return how many contradictions there are, and the first one.

    They stand in the order of the generations, those of a generation before those of its passes; passes that belong to
    no generation come last.
    """
    found, passes = trace.generations, trace.passes
    groups = places_in(passes.groups, found.keys)
    has_generation = np.zeros(len(passes.groups), bool)
    has_generation[groups[groups >= 0]] = True
    alone = np.flatnonzero(~has_generation)
    of_generations, of_passes = _wrong_generations(trace, groups), _wrong_passes(trace)
    in_passes = _counted(of_passes, len(passes.keys))
    in_generations = _counted(of_generations, len(found.keys)) + _of_groups(passes.sums(in_passes), groups)
    count = int(in_generations.sum()) + len(alone)
    if in_generations.any():
        place = int(np.argmax(in_generations > 0))
        own = _sentence(of_generations, place)
        if own:
            return count, own
        places = passes.of_group(int(groups[place]))
        return count, _sentence(of_passes, int(places[np.argmax(in_passes[places] > 0)]))
    if len(alone):
        record = passes.record(passes.firsts[alone].min())
        text = f"DRAFT arm={record.get('arm')} prompt={record.get('prompt')}: there is no DECODE record for it"
        return count, text
    return 0, ""


def _wrong_generations(trace: DecodeTrace, groups: Integers) -> list[Wrong]:
    """Return what contradicts the counters of generations, whose passes are those of `groups`."""
    found, passes = trace.generations, trace.passes
    count = _of_groups(passes.counts, groups)
    proposed = _of_groups(passes.sums(passes.proposed), groups)
    committed = _of_groups(passes.sums(passes.committed), groups)
    prefill, calls = _prefill(trace), np.where(count > 0, count, found.tokens)
    drafted = np.where(found.is_of(DRAFTING_BY_MODEL), proposed, 0)

    def margins(place: int) -> str:
        return f", field margins: {found.margins[place]} for {found.tokens[place]} tokens"

    def forwards(place: int) -> str:
        return f", field forwards: {found.forwards[place]}, but {prefill[place]} + {calls[place]} were needed"

    def draft_forwards(place: int) -> str:
        stated = found.draft_forwards[place]
        return f", field draft_forwards: {stated}, but {drafted[place]} guesses were made"

    def tokens(place: int) -> str:
        return f": its passes committed {committed[place]} tokens, it has {found.tokens[place]}"

    return [
        Wrong(mask, lambda place, say=say: found.record(place).label + say(place))  # type: ignore[misc]
        for mask, say in (
            (_mask(found.margins != found.tokens), margins),
            (_mask(found.forwards != prefill + calls), forwards),
            (_mask(found.draft_forwards != drafted), draft_forwards),
            (_mask(count > 0) & _mask(committed != found.tokens), tokens),
        )
    ]


def _wrong_passes(trace: DecodeTrace) -> list[Wrong]:
    """Return what contradicts the counters of passes."""
    passes = trace.passes
    proposed, accepted, committed = passes.proposed, passes.accepted, passes.committed
    number, last = passes.places_in_group()
    usual, multi = trace.size("block"), trace.size("futures") - 1 if trace.generations.multi.any() else 0
    fits = np.where(passes.multi, proposed <= fitting(multi, proposed), proposed <= fitting(usual, proposed))

    def missing(place: int) -> str:
        return f": pass {number[place]} is missing"

    def in_block(place: int) -> str:
        block = multi if passes.multi[place] else usual
        return f": {accepted[place]} accepted of {proposed[place]} proposed, in blocks of {block}"

    def kept(place: int) -> str:
        return f", field committed: {committed[place]} with {accepted[place]} accepted"

    def rolled_back(place: int) -> str:
        text = f"{proposed[place] + 1} were fed and {committed[place]} kept"
        return f", field rolled_back: {passes.rolled_back[place]}, but {text}"

    return [
        Wrong(mask, lambda place, say=say: passes.record(place).label + say(place))  # type: ignore[misc]
        for mask, say in (
            (_mask(passes.numbers != number), missing),
            (~(_mask(accepted >= 0) & _mask(accepted <= proposed) & _mask(fits)), in_block),
            # A stop may end a pass with its last accepted guess; any other pass commits one token more.
            (_mask(committed != accepted + 1) & ~(last & _mask(committed == accepted)), kept),
            (_mask(passes.rolled_back != proposed + 1 - committed), rolled_back),
        )
    ]


def _prefill(trace: DecodeTrace) -> Integers:
    """Return how many calls the prompt of each generation needs before the first token."""
    found = trace.generations
    # A chunk below 1 is a contradiction of CONFIG, which another judge reports.
    chunk = fitting(max(1, trace.size("chunk")), found.prompt_tokens)
    one_by_one = found.prompt_tokens - 1
    prefill = -(-one_by_one // chunk)
    prefill = np.where(found.is_of(ONE_TOKEN_PREFILL), one_by_one, prefill)
    prefill[found.is_of(("full", "mtp-full"))] = 0
    return prefill


def _of_groups(values: Integers, groups: Integers) -> Integers:
    """Return for each of some groups its value; 0 for none, which is -1."""
    return (
        np.where(groups >= 0, values[groups], values.dtype.type(0)) if len(values) else np.zeros(len(groups), np.int32)
    )


def _counted(wrong: list[Wrong], count: int) -> Integers:
    """Return how many rules each of `count` records contradicts."""
    counted = np.zeros(count, np.int32)
    for rule in wrong:
        counted += rule.records
    return counted


def _sentence(wrong: list[Wrong], place: int) -> str:
    """Return the sentence of the first rule that a record contradicts; nothing if it keeps them all."""
    return next((rule.sentence(place) for rule in wrong if rule.records[place]), "")


def _mask(values: npt.NDArray[np.bool_] | npt.NDArray[np.object_]) -> Mask:
    """Return truth values as such, whatever numbers were compared."""
    return np.asarray(values, bool)


GENERATIONS: Final = Witness("generation", "generations")
PASSES: Final = Witness("pass", "passes")
GUESSES: Final = Witness("guess", "guesses")
REJECTED: Final = Witness("rejected guess", "rejected guesses")
ROLLED_BACK: Final = Witness("row rolled back", "rows rolled back")


@check(
    "spec.trace",
    Level.I3,
    "the counters of speculation add up",
    "Tokens, passes, forwards and rolled-back rows, recounted from the DRAFT records.",
    witnesses=(GENERATIONS, PASSES, REJECTED, ROLLED_BACK),
    catches="speculation.bonus-counted trace.passes-miscounted",
)
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


@check(
    "spec.cache",
    Level.I3,
    "the cached and the re-encoding self-speculation make the same passes",
    "A cache under multi-token self-speculation must not change what is guessed or accepted.",
    witnesses=(PASSES, REJECTED),
    catches="cache.later-heads-exchanged",
)
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


@check(
    "spec.self",
    Level.I3,
    "a model that drafts for itself is always right",
    "Tokens never show a fault on the draft's side; its acceptance does.",
    witnesses=(GUESSES,),
    catches="speculation.draft-misses-tokens",
)
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
