"""The judges of a decode trace's agreement with itself, and of whether training did anything."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from cai_conformance.judges.decoder.reading import DecodeTrace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.trace.formatting import format_real, format_reals
from cai_conformance.trace.records import Record, Trace

LEAST_FALL = 0.3
"""The validation loss has to end at least this part below where it began."""

PRINTED = 1.6e-6
"""What rounding to six decimals may make of a difference: half a unit of each of three numbers."""


def judge_decode_consistency(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount everything that can be recounted; the first contradiction is the message."""
    trace = DecodeTrace(evidence.main)
    problems = [
        *_config(trace),
        *_losses(trace.trace),
        *_stages(trace.trace),
        *_generated(trace),
        *_proof(trace.trace),
    ]
    if problems:
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return (Finding.failed(problems[0] + rest),)
    return (Finding.passed("counts, RESULT, STAGE, GENERATE and PROOF agree with each other"),)


def judge_decode_learning(evidence: Evidence) -> tuple[Finding, ...]:
    """Ask whether the validation loss fell by the stated part; on foreign stories and sizes, whether it fell at all."""
    losses = evidence.main.all("LOSS")
    before, after = losses[0].real("validation"), losses[-1].real("validation")
    least = LEAST_FALL if evidence.question.request.profile == "golden" else 0.0
    if not (isfinite(before) and 0.0 <= after <= before * (1.0 - least) and after < before):
        return (Finding.failed(f"LOSS, field validation: {before:.6f} before training, {after:.6f} after it"),)
    return (Finding.passed(f"validation loss fell by {100.0 * (1.0 - after / before):.1f} %"),)


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


def _losses(trace: Trace) -> Iterator[str]:
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
    for record in losses:
        bits = trace.find("BITS", step=record.get("step"))
        for field in ("train", "validation"):
            if bits is not None and bits.has(field) and format_real(bits.bits(field)[0]) != record.get(field):
                yield f"{record.label}, field {field}: prints {record.get(field)}, its bits are another number"


def _stages(trace: Trace) -> Iterator[str]:
    for place, stage in enumerate(trace.all("STAGE")):
        if stage.integer("index") != place:
            yield f"{stage.label}: stage {place} is missing"
        shape, at = stage.integers("shape"), stage.integers("at")
        size = 1
        for length in shape:
            size *= length
        if len(set(at)) != len(at) or any(not 0 <= index < size for index in at):
            yield f"{stage.label}, field at: not distinct places of shape {shape}"
        if len(stage.reals("values")) != len(at):
            yield f"{stage.label}, field values: {len(stage.reals('values'))} for {len(at)} places"
        if stage.has("bits") and format_reals(stage.bits("bits")) != stage.get("values"):
            yield f"{stage.label}, field values: prints {stage.get('values')}, its bits are other numbers"


def _generated(trace: DecodeTrace) -> Iterator[str]:
    vocabulary, context = trace.size("vocabulary"), trace.size("context")
    for record in trace.decodes.values():
        ids, prompt = record.integers("ids"), record.integers("prompt_ids")
        for index, token in enumerate([*prompt, *ids]):
            if not 0 <= token < vocabulary:
                yield f"{record.label}: token {token} at {index} is not in a vocabulary of {vocabulary}"
        if len(prompt) + len(ids) > context:
            yield f"{record.label}: {len(prompt) + len(ids)} tokens in a context of {context}"
    for record in trace.trace.all("GENERATE"):
        yield from _unlike_decode(trace, record)


def _unlike_decode(trace: DecodeTrace, record: Record) -> Iterator[str]:
    decode = trace.decodes.get((record.get("arm"), record.integer("prompt")))
    if decode is None:
        yield f"{record.label}: there is no DECODE record for it"
        return
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
