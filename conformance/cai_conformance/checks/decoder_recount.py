"""The judges of a decode trace's agreement with itself, and of whether training did anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import isfinite, prod
from typing import Final

import numpy as np

from cai_conformance.checks.check import check
from cai_conformance.checks.contradictions import (
    HashColumn,
    Problem,
    finding_of,
    fitting,
    integers_of,
    label_of,
    length_of,
    losses_with_bits,
    places_in,
    prints_as,
)
from cai_conformance.checks.decode_trace import DecodeTrace, decode_trace
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.witness import Witness
from cai_conformance.trace.format import format_real, format_reals
from cai_conformance.trace.records import Record, Trace, float_of_bits, list_items
from cai_conformance.verdicts import Level

LEAST_FALL = 0.3
"""The validation loss has to end at least this part below where it began."""

PRINTED = 1.6e-6
"""What rounding to six decimals may make of a difference: half a unit of each of three numbers."""

TEXTS: Final = Witness("text held against its generation", "texts held against their generations")
BITS: Final = Witness("printed number with its bits", "printed numbers with their bits", where="if bits are given")
UPDATES: Final = Witness("update between the two losses", "updates between the two losses")

Tally = Counter[Witness]


@check(
    "trace.recount",
    Level.T3,
    "the trace agrees with itself",
    "Counts, RESULT against LOSS, printed values against their bits, GENERATE against DECODE, PROOF.",
    witnesses=(TEXTS, BITS),
    catches="trace.proof-by-assertion gradient.never-zeroed",
)
def judge_decode_consistency(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount everything that can be recounted; the first contradiction is the message."""
    trace, tally = decode_trace(evidence), Tally()
    records = trace.trace
    problems = chain[Problem](
        _config(trace),
        _losses(records, tally),
        _stages(records, tally),
        _generated(trace),
        _texts(trace),
        _proof(records),
    )
    found = finding_of(problems, "counts, RESULT, STAGE, GENERATE and PROOF agree with each other")
    bits = BITS.met(tally[BITS], needed=bool(records.all("BITS")))
    return (found.having_met(TEXTS.met(len(records.all("GENERATE"))), bits),)


@check(
    "run.learning",
    Level.T3,
    "training lowered the validation loss, on own stories by 30 % or more",
    "A model that did not learn repeats itself, and makes equalities of tokens empty.",
    witnesses=(UPDATES,),
    catches="training.nothing-learned",
)
def judge_decode_learning(evidence: Evidence) -> tuple[Finding, ...]:
    """Ask whether the validation loss fell by the stated part; on foreign stories and sizes, whether it fell at all."""
    losses = evidence.main.all("LOSS")
    before, after = losses[0].real("validation"), losses[-1].real("validation")
    least = LEAST_FALL if evidence.question.request.profile == "golden" else 0.0
    if not (isfinite(before) and 0.0 <= after <= before * (1.0 - least) and after < before):
        return (Finding.failed(f"LOSS, field validation: {before:.6f} before training, {after:.6f} after it"),)
    updates = UPDATES.met(losses[-1].integer("step") - losses[0].integer("step"))
    return (Finding.passed(f"validation loss fell by {100.0 * (1.0 - after / before):.1f} %", met=[updates]),)


def _config(trace: DecodeTrace) -> Iterator[str]:
    for field in (
        "context",
        "width",
        "heads",
        "feed_forward",
        "futures",
        "key_value_heads",
        "head_width",
        "chunk",
        "block",
    ):
        if trace.size(field, 1) < 1:
            yield f"CONFIG, field {field}: {trace.size(field)} is not positive"
    if trace.size("heads") > 0 and trace.size("width") % trace.size("heads"):
        yield f"CONFIG, field heads: {trace.size('heads')} do not divide a width of {trace.size('width')}"
    if trace.size("key_value_heads", 1) > 0 and trace.size("heads") % trace.size("key_value_heads", 1):
        shared = f"{trace.size('key_value_heads')} heads of keys and values"
        yield f"CONFIG, field key_value_heads: {shared} do not divide {trace.size('heads')} query heads"
    made = 258 + trace.size("merges")
    if trace.size("vocabulary") < made:
        yield f"CONFIG, field vocabulary: {trace.size('vocabulary')}, but bytes, merges and control ids make {made}"
    if not 0 < trace.size("weights") <= trace.size("parameters"):
        yield f"CONFIG, field weights: {trace.size('weights')} of {trace.size('parameters')} parameters"
    split = trace.trace.all("SPLIT")[0]
    stories = split.integer("train_stories") + split.integer("validation_stories")
    if stories != trace.size("stories"):
        yield f"SPLIT: {stories} stories in all, but CONFIG has {trace.size('stories')}"
    # Where losses select, batches are taken again and again, in the order of one epoch.
    if not trace.config.has("checkpoints") and split.integer("batches") != trace.size("steps"):
        yield f"SPLIT, field batches: {split.get('batches')}, but CONFIG has {trace.size('steps')} steps"


def _losses(trace: Trace, tally: Tally) -> Iterator[str]:
    losses, result = trace.all("LOSS"), trace.all("RESULT")[0]
    steps = trace.all("CONFIG")[0].get("steps")
    if losses[0].get("step") != "0" or losses[-1].get("step") != steps or result.get("step") != steps:
        yield f"LOSS: the first step is not 0, or the last not {steps}"
    for field, record in (("initial_validation", losses[0]), ("final_validation", losses[-1])):
        if result.get(field) != record.get("validation"):
            yield f"RESULT, field {field}: {result.get(field)}, but {record.label} has {record.get('validation')}"
    fallen = result.real("initial_validation") - result.real("final_validation")
    if isfinite(fallen) and not abs(fallen - result.real("improvement")) <= PRINTED:
        yield f"RESULT, field improvement: {result.get('improvement')}, but the losses differ by {format_real(fallen)}"
    for (step, *printed), bits in losses_with_bits(trace):
        for field, text, exact in zip(("train", "validation"), printed, bits or ("", ""), strict=True):
            tally[BITS] += bool(exact)
            if exact and not prints_as(exact, text) and format_real(float_of_bits(exact)) != text:
                yield f"{label_of('LOSS', step=step)}, field {field}: prints {text}, its bits are another number"


def _stages(trace: Trace, tally: Tally) -> Iterator[str]:
    rows = trace.rows("STAGE", "index", "shape", "at", "values", "bits")
    for place, (index, shape, at, values, bits) in enumerate(rows):
        tally[BITS] += length_of(bits) if bits else 0
        for problem in _stage(place, index, shape, at, values, bits):
            yield f"{label_of('STAGE', index=index)}{problem}"


def _stage(place: int, index: str, shape: str, at: str, values: str, bits: str) -> Iterator[str]:
    if int(index) != place:
        yield f": stage {place} is missing"
    places, size = integers_of(at), prod(integers_of(shape))
    if len(set(places)) != len(places) or (places and not 0 <= min(places) <= max(places) < size):
        yield f", field at: not distinct places of shape {shape}"
    if length_of(values) != len(places):
        yield f", field values: {length_of(values)} for {len(places)} places"
    if bits and format_reals(map(float_of_bits, list_items(bits))) != values:
        yield f", field values: prints {values}, its bits are other numbers"


def _generated(trace: DecodeTrace) -> Iterator[str]:
    vocabulary, context, found = trace.size("vocabulary"), trace.size("context"), trace.generations
    lengths = found.prompt_tokens + found.tokens
    too_long = np.asarray(lengths > fitting(context, lengths), bool)
    for place in np.flatnonzero(~found.known | too_long).tolist():
        record = found.record(place)
        tokens = [*record.integers("prompt_ids"), *record.integers("ids")]
        for index, token in enumerate(tokens):
            if not 0 <= token < vocabulary:
                yield f"{record.label}: token {token} at {index} is not in a vocabulary of {vocabulary}"
        if too_long[place]:
            yield f"{record.label}: {len(tokens)} tokens in a context of {context}"


def _texts(trace: DecodeTrace) -> Iterator[Problem]:
    """Compare each GENERATE record with the DECODE record of its arm and prompt."""
    found, records = trace.generations, trace.trace.all("GENERATE")
    keys, outcomes = HashColumn(len(records)), HashColumn(len(records))
    for batch in trace.trace.batches("GENERATE", "arm", "prompt", "ids", "stop"):
        arms, prompts, ids, stops = zip(*batch, strict=True)
        keys.extend(list(zip(arms, prompts, strict=True)))
        outcomes.extend(list(zip(ids, stops, strict=True)))
    partners = places_in(found.keys, keys.values)
    unlike = found.outcomes[partners] != outcomes.values
    for place in np.flatnonzero((partners < 0) | unlike).tolist():
        if partners[place] < 0:
            yield partial(_alone, records, place)
        else:
            yield from _unlike(records[place], found.record(partners[place]))


def _alone(records: Sequence[Record], place: int) -> str:
    return f"{records[place].label}: there is no DECODE record for it"


def _unlike(record: Record, decode: Record) -> Iterator[str]:
    for field in ("ids", "stop"):
        if record.get(field) != decode.get(field):
            yield f"{record.label}, field {field}: another value than in {decode.label}"


def _proof(trace: Trace) -> Iterator[str]:
    proof = trace.all("PROOF")[0]
    for field, bad in (
        ("replay", "changed"),
        ("arms", "different"),
        ("logits", "different"),
        ("cache", "wrong"),
        ("rollback", "wrong"),
    ):
        if proof.get(field) == bad:
            yield f"PROOF, field {field}: {bad}"
    bitwise = trace.envelope.arithmetic.startswith("strict")
    if bitwise and (proof.get("logits"), proof.get("rollback")) != ("bitwise", "exact"):
        yield f"PROOF, field logits: {proof.get('logits')} and rollback {proof.get('rollback')}, in strict arithmetic"
