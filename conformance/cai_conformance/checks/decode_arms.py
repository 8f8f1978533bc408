"""Decode arms: every arm generates what plain greedy re-encoding generates, from caches of the stated size.

Tokens have to be equal in every arithmetic. Where bits mean something the logits have to be equal too, by their digest;
`absorbed` regroups sums and is exempt from that. An arm that is stopped early is held against the beginning.
Floats, slack and allocation of every layer's cache are recomputed from CONFIG.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from cai_conformance.checks.check import Check, Judge, check
from cai_conformance.checks.contradictions import Integers, fitting, places_in
from cai_conformance.checks.decode_trace import NOTHING, DecodeTrace, Generations, decode_trace
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.run import BUDGETS
from cai_conformance.checks.witness import Met, Witness
from cai_conformance.trace.records import Record
from cai_conformance.verdicts import Difference, Level, Problem

REGROUPED = frozenset({"absorbed"})
"""Arms whose logits agree to rounding only."""

TOKENS: Final = Witness("token", "tokens")
DISTINCT: Final = Witness("distinct token in a generation", "distinct tokens in a generation", least=2)
CHUNKS: Final = Witness("prompt of several chunks", "prompts of several chunks")
EVICTED: Final = Witness("token beyond the window", "tokens beyond the window")
ACCEPTED: Final = Witness("accepted guess", "accepted guesses")
REJECTED: Final = Witness("rejected guess", "rejected guesses")
INSIDE: Final = Witness("rejection inside a block", "rejections inside a block")
ROLLED_BACK: Final = Witness("row rolled back", "rows rolled back")
CUT: Final = Witness("generation that would go on", "generations that would go on")
STOPPED: Final = Witness("stop at this offset of a block", "stops at this offset of a block")


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


CALLS: Final = check(
    "kv.inc",
    Level.I2,
    "the session generates what re-encoding generates, step by step and in chunks",
    "Tokens in every arithmetic; where bits mean something, every bit of every logit.",
    cases=("cached", "chunked"),
    witnesses=(TOKENS, DISTINCT, CHUNKS.of("chunked")),
    catches="rope.restart",
)(arms_equal("cached", "chunked"))
LATENTS: Final = check(
    "mla.absorb",
    Level.I2,
    "the two small caches of latent attention generate the same tokens",
    "Recomputing keys and values from latents keeps every bit; absorbing the up-projections regroups sums.",
    cases=("latent", "absorbed"),
    witnesses=(TOKENS, DISTINCT),
    catches="mla.absorbed-scale-latent mla.folded-without-value-bias",
)(arms_equal("latent", "absorbed"))
SMALL_BUDGETS: Final = check(
    "spec.budget",
    Level.I3,
    "no block exceeds the budget",
    "Budgets of 1 to 5 tokens, smaller and larger than a block.",
    cases=tuple(map(str, BUDGETS)),
    witnesses=(CUT,),
    catches="speculation.whole-blocks",
)(arms_stopped("scripted.budget", BUDGETS))


def speculation_equal(arms: tuple[str, ...]) -> Check:
    """Return the check of those arms that speculate; guesses can be wrong in all of them but `self-draft`."""
    wrong = tuple(arm for arm in arms if arm != "self-draft")
    return check(
        "spec.eq",
        Level.I3,
        "speculation generates what plain greedy decoding generates",
        "Under guesses that are right up to planned offsets, and under the suite's own drafts.",
        cases=arms,
        witnesses=(TOKENS, DISTINCT, ACCEPTED, *(each.of(*wrong) for each in (REJECTED, INSIDE, ROLLED_BACK))),
        catches=(
            "cache.stale-row-after-rollback speculation.bonus-twice speculation.later-matches stop.budget-plus-one"
        ),
    )(arms_equal(*arms))


def stops_in_blocks(block: int) -> Check:
    """Return the check of a stop at each offset of blocks with so many guesses."""
    offsets = range(block + 1)
    return check(
        "spec.eos",
        Level.I3,
        "a stop inside a block ends the generation there",
        "A stop id at each offset of a block of right guesses.",
        cases=tuple(map(str, offsets)),
        witnesses=(CUT, STOPPED),
        catches="speculation.stop-inside-missed stop.eos-ignored",
    )(arms_stopped("scripted.eos", offsets))


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
    text = f"{what}, equal to re-encoding over {counted(len(places), 'prompt')}"
    return Finding.passed(text, arm, [*_met_by_tokens(trace, places), *_met_by_passes(trace, arm)])


def _met_by_tokens(trace: DecodeTrace, places: Integers) -> list[Met]:
    """Count tokens, those that a window has let go of, and prompts that are longer than a chunk."""
    found, window = trace.generations, trace.size("window")
    # The last token that is generated is fed to nothing.
    lengths = found.prompt_tokens[places] + found.tokens[places] - 1
    beyond = np.maximum(lengths - fitting(window, lengths), 0) if window else np.zeros_like(lengths)
    # The last token of a prompt is fed with the first step.
    first_call = fitting(trace.size("chunk") + 1, found.prompt_tokens)
    return [
        TOKENS.met(found.tokens[places].sum()),
        DISTINCT.met(found.distinct[places].max()),
        CHUNKS.met((found.prompt_tokens[places] > first_call).sum()),
        EVICTED.met(beyond.sum()),
    ]


def _met_by_passes(trace: DecodeTrace, arm: str) -> list[Met]:
    """Count guesses by what became of them."""
    passes = trace.passes
    places = passes.of_groups(passes.groups_of(arm))
    proposed, accepted = passes.proposed[places], passes.accepted[places]
    return [
        ACCEPTED.met(accepted.sum()),
        REJECTED.met((proposed - accepted).sum()),
        INSIDE.met(((accepted > 0) & (accepted < proposed)).sum()),
        ROLLED_BACK.met(passes.rolled_back[places].sum()),
    ]


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
    cut = 0
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
        cut += len(truth) > len(ids)
    text = f"stopped where it should over {counted(len(places), 'prompt')}"
    return Finding.passed(text, met=[CUT.met(cut), STOPPED.met(_stops(trace, arm, int(number)))])


def _stops(trace: DecodeTrace, arm: str, offset: int) -> int:
    """Count the passes that end a generation at an offset of a whole block."""
    passes, block = trace.passes, trace.size("block")
    lasts = [passes.of_group(int(group))[-1:] for group in passes.groups_of(arm)]
    last = np.concatenate([passes.order[:0], *lasts])
    at_offset = passes.committed[last] == fitting(offset + 1, passes.committed)
    return int((at_offset & (passes.proposed[last] == fitting(block, passes.proposed))).sum())


WINDOWED: Final = "window attention"
LATENT: Final = "latent"
"""The arm that keeps latents only."""

STATED: Final = ("floats", "slack", "allocated", "formula")

CACHES: Final = Witness("cache", "caches")
RINGS_LEFT: Final = Witness("ring that has let go of rows", "rings that have let go of rows")


Stated: TypeAlias = tuple[str, ...]
"""What a CACHE record says in the fields `STATED`."""


@check(
    "cache.formula",
    Level.I2,
    "caches hold what their formulas say, and no more is allocated",
    "Live floats, slack for rolling back and allocated arrays of every layer, recomputed from CONFIG.",
    witnesses=(CACHES, RINGS_LEFT),
    catches="cache.allocation-counted cache.slack-counted",
)
def judge_caches(evidence: Evidence) -> tuple[Finding, ...]:
    """Hold every CACHE record against the formula of its layer's mixer."""
    trace = decode_trace(evidence)
    layers, count, evicted = len(trace.mixers), 0, 0
    ring = trace.size("window") + trace.size("slack")
    formulas: dict[tuple[str, bool], Callable[[int], Stated]] = {}
    for layer, arm, prefix, *stated in trace.trace.rows("CACHE", "layer", "arm", "prefix", *STATED):
        formula = formulas.get((layer, arm == LATENT))
        if formula is None:
            if not 0 <= int(layer) < layers:
                return (Finding.failed(f"{_label(evidence, count)}: the model has {layers} layers"),)
            formula = formulas[layer, arm == LATENT] = cache_formula(trace, trace.mixers[int(layer)], arm)
        wanted = formula(int(prefix))
        if (*stated,) != wanted:
            field, found, expected = next(
                (field, one, other) for field, one, other in zip(STATED, stated, wanted, strict=True) if one != other
            )
            text = f"{found}, but {expected} follows from CONFIG"
            return (Finding.failed(f"{_label(evidence, count)}, field {field}: {text}"),)
        count += 1
        evicted += trace.mixers[int(layer)] == WINDOWED and int(prefix) > ring
    met = {layer for layer, _ in formulas}
    missing = [str(layer) for layer in range(layers) if str(layer) not in met]
    if missing:
        return (Finding.failed(f"CACHE: nothing is said about layer {', '.join(missing)}"),)
    text = f"{count} caches hold what their formulas say"
    return (Finding.passed(text, met=[CACHES.met(count), RINGS_LEFT.met(evicted)]),)


def _label(evidence: Evidence, place: int) -> str:
    return evidence.main.all("CACHE")[place].label


def cache_formula(trace: DecodeTrace, mixer: str, arm: str) -> Callable[[int], Stated]:
    """Return what is to be said of a layer's cache after some tokens.

    Width d, heads H of width w = d/H, latent L, rope r, window W, slack S, context C, tokens t:
    attention 2·d·t; with a window 2·d·min(t, W), in a ring of W + S rows; latent attention 2·H·(w + r)·t by head, or
    (L + r)·t; a recurrence d, with the last S states beside it. Where G heads of keys and values are shared by query
    heads, attention holds 2·G·w floats a token in place of 2·d.
    """
    context, width, heads, slack = (trace.size(name) for name in ("context", "width", "heads", "slack"))
    latent, rope, window = trace.size("latent", 0), trace.size("rope", 0), trace.size("window")
    per_token = "2*d"
    if trace.config.has("key_value_heads"):
        width, per_token = trace.size("key_value_heads") * trace.size("head_width"), "2*G*w"

    def recurrence(tokens: int) -> Stated:
        states = min(tokens, slack)
        return f"{width}", f"{width * states}", f"{width * (states + 1)}", "d"

    def in_window(tokens: int) -> Stated:
        ring = min(context, window + slack)
        held, seen = min(tokens, ring), min(tokens, window)
        return f"{2 * width * seen}", f"{2 * width * (held - seen)}", f"{2 * width * ring}", f"{per_token}*min(t,W)"

    def rows_of(row: int, formula: str) -> Callable[[int], Stated]:
        allocated = f"{row * context}"
        return lambda tokens: (f"{row * tokens}", "0", allocated, formula)

    if mixer == "diagonal ssm":
        return recurrence
    if mixer == WINDOWED:
        return in_window
    if mixer == "latent attention" and arm == LATENT:
        return rows_of(latent + rope, "(L+r)*t")
    if mixer == "latent attention":
        return rows_of(2 * (width + heads * rope), "2*H*(w+r)*t")
    return rows_of(2 * width, f"{per_token}*t")
