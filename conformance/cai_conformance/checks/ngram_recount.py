"""The judge of internal consistency of the neural n-gram: a trace must agree with itself, whoever wrote it.

Counts are recomputed from CONFIG and SPLIT, RESULT from LOSS, PROOF from what the other records show, and every printed
real from its bits where the trace carries them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf, isfinite
from typing import Final

from cai_conformance.checks.check import check
from cai_conformance.checks.contradictions import (
    finding_of,
    first_steps,
    label_of,
    length_of,
    losses_with_bits,
    prints_as,
)
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.witness import Witness
from cai_conformance.trace.format import format_real, format_reals
from cai_conformance.trace.records import OUTSIDE_BODY, Record, Trace, float_of_bits, list_items, shortened
from cai_conformance.verdicts import Level

AT_EVERY_STEP = ("batch_loss", "train", "validation")
"""Bits that every BITS record may have."""

CONTROL_TOKENS_AND_BYTES = 2 + 256
HALF_UNIT = 0.5e-6
PREVIEW = 6
MATRICES = 5
LEAST_IMPROVEMENT = 0.01
"""By how many nats validation must improve on a known corpus (course, chapter 23)."""

NEW_TOKENS = 12
"""How many tokens the prompt is continued by, unless EOS ends it earlier (course, chapter 23)."""

TOKENS: Final = Witness("generated token", "generated tokens")
PRINTED: Final = Witness("printed number with its bits", "printed numbers with their bits", where="if bits are given")
UPDATES: Final = Witness("update between the two losses", "updates between the two losses")

Tally = Counter[Witness]


@check(
    "trace.recount",
    Level.T3,
    "the trace agrees with itself",
    "Counts from CONFIG and SPLIT, RESULT from LOSS, PROOF from the other records, printed values from their bits.",
    witnesses=(TOKENS, PRINTED),
    catches="trace.digits-cut-off gradient.never-zeroed",
)
def judge_consistency(evidence: Evidence) -> tuple[Finding, ...]:
    """Recount everything that can be recounted; the first contradiction is the message."""
    trace, tally = evidence.main, Tally()
    parts = (_counts, _stages, _losses, _generation, _proof, _bits)
    problems = chain(*(part(trace) for part in parts), _printed_bits(evidence, tally))
    found = finding_of(problems, "counts, RESULT, GENERATE, PROOF and printed values agree with each other")
    tokens = len(_only(trace, "GENERATE").integers("ids"))
    printed = PRINTED.met(tally[PRINTED], needed=bool(trace.all("BITS")))
    return (found.having_met(TOKENS.met(tokens), printed),)


@check(
    "run.learning",
    Level.T3,
    "training lowered the loss",
    "A model that did not learn makes most other checks empty. On the suite's own and the published corpus the "
    "validation loss must fall, too, by more than 0.01 nats; on a foreign one it may be unlike training.",
    witnesses=(UPDATES,),
    catches="training.nothing-learned",
)
def judge_learning(evidence: Evidence) -> tuple[Finding, ...]:
    """Ask whether training did anything: the training loss fell, and validation too where that is known to follow.

    On a foreign corpus validation may be unlike training, which is no fault of the backend.
    """
    losses = evidence.main.all("LOSS")
    first, last = losses[0], losses[-1]
    foreign = evidence.question.request.profile == "foreign"
    for name, margin in (("train", 0.0), ("validation", -inf if foreign else LEAST_IMPROVEMENT)):
        before, after = first.real(name), last.real(name)
        if not (isfinite(after) and after + margin < before):
            return (Finding.failed(f"LOSS, field {name}: {before:.6f} before training, {after:.6f} after it"),)
    fell = first.real("validation") - last.real("validation")
    moved = f"fell by {fell:.6f}" if fell >= 0.0 else f"rose by {-fell:.6f}"
    updates = UPDATES.met(last.integer("step") - first.integer("step"))
    return (Finding.passed(f"validation loss {moved} nats", met=[updates]),)


def _counts(trace: Trace) -> Iterator[str]:
    config, split = _only(trace, "CONFIG"), _only(trace, "SPLIT")
    vocabulary, context, hidden = (config.integer(name) for name in ("vocabulary", "context", "hidden"))
    embedding, concatenated = config.integer("embedding"), config.integer("concatenated")
    inner = config.integer("swiglu_inner")
    parameters = vocabulary * embedding + 2 * concatenated * inner + inner * hidden + hidden * vocabulary
    yield from _unequal("CONFIG", "vocabulary", vocabulary, CONTROL_TOKENS_AND_BYTES + config.integer("merges"))
    yield from _unequal("CONFIG", "concatenated", concatenated, context * embedding)
    yield from _unequal("CONFIG", "parameters", config.integer("parameters"), parameters)
    for field, rows, size in (
        ("train_batches", "train_contexts", "batch"),
        ("train_evaluation_batches", "train_contexts", "evaluation_batch"),
        ("validation_evaluation_batches", "validation_contexts", "evaluation_batch"),
    ):
        if config.integer(size) < 1:
            yield f"CONFIG, field {size}: {config.integer(size)}, but a batch has at least one row"
            continue
        batches = -(-split.integer(rows) // config.integer(size))
        yield from _unequal("SPLIT", field, split.integer(field), batches)
    for field in ("train_documents", "validation_documents"):
        if split.integer(field) < 1:
            yield f"SPLIT, field {field}: {split.integer(field)}, but no partition is empty"
    steps = trace.all("BITS")
    # They ascend, so that the first and the last tell whether one is missing. Whatever max_steps says, no list of that
    # length is made.
    if steps and (len(steps) != config.integer("max_steps") + 1 or not _is_range(steps)):
        yield f"BITS, field step: {first_steps(trace, 'BITS')}, but CONFIG has max_steps {config.get('max_steps')}"


def _is_range(records: Sequence[Record]) -> bool:
    return (records[0].integer("step"), records[-1].integer("step")) == (0, len(records) - 1)


def _stages(trace: Trace) -> Iterator[str]:
    """Compare shapes with CONFIG, lengths with shapes, and the two views of the embeddings with each other."""
    config, stages = _only(trace, "CONFIG"), trace.all("STAGE")
    vocabulary, context, hidden = (config.integer(name) for name in ("vocabulary", "context", "hidden"))
    embedding, concatenated = config.integer("embedding"), config.integer("concatenated")
    shapes = [[1, context], [1, context, embedding], [1, concatenated], [1, hidden], [1, vocabulary]]
    for stage, shape in zip(stages, shapes, strict=True):
        if stage.integers("shape") != shape:
            yield f"{stage.label}, field shape: {shortened(stage.get('shape'))}, but CONFIG gives {shape}"
    lengths = (context, context * embedding, concatenated, hidden, min(PREVIEW, vocabulary))
    for stage, field, length in zip(stages, ("ids", "values", "values", "values", "preview"), lengths, strict=True):
        yield from _length(stage.label, field, len(list_items(stage.get(field))), length)
    if stages[1].get("values") != stages[2].get("values"):
        yield f"{stages[2].label}, field values: other values than {stages[1].label} has"


def _bits(trace: Trace) -> Iterator[str]:
    """Compare the BITS records with CONFIG and LOSS; training stops at a number that is not finite."""
    config, reported = _only(trace, "CONFIG"), _Ascending(int(step) for (step,) in trace.rows("LOSS", "step"))
    lengths = {
        "embeddings": config.integer("context") * config.integer("embedding"),
        "hidden": config.integer("hidden"),
        "logits": config.integer("vocabulary"),
        "gradient_l1": MATRICES,
    }
    for step, *values in trace.rows("BITS", "step", *AT_EVERY_STEP):
        # Nearly all records stop here, of which there may be very many.
        if step not in ("0", "1") and all(map(_finite, values)) and int(step) in reported:
            continue
        # Only the records of the first steps have lists.
        record = trace.find("BITS", step=step) if step in ("0", "1") else None
        for name, text in zip(AT_EVERY_STEP, values, strict=True) if record is None else record.fields:
            if name in lengths:
                yield from _length(label_of("BITS", step=step), name, length_of(text), lengths[name])
            if name not in ("step", "parameters", "moments") and not _finite(text):
                yield f"{label_of('BITS', step=step)}, field {name}: not every value is finite"
            if name in ("train", "validation") and text and int(step) not in reported:
                yield f"{label_of('BITS', step=step)}, field {name}: there is no LOSS record of this step"
    first = trace.find("BITS", step=0)
    if first is not None and first.has("logits"):
        logits = first.bits("logits")
        yield from _unequal("STAGE index=4", "argmax", trace.all("STAGE")[-1].integer("argmax"), _argmax(logits))


def _finite(text: str) -> bool:
    """Return whether bits, or each of a list of them, are those of a finite double; of absent ones it is true."""
    # Infinities and NaNs are the doubles whose exponent has all bits set.
    if text[:1] != "[":
        return not text.startswith(("7ff", "fff"))
    return all(map(_finite, list_items(text)))


class _Ascending:
    """Numbers in ascending order, of which others in ascending order are asked for."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._next = next(numbers, None)

    def __contains__(self, number: int) -> bool:
        while self._next is not None and self._next < number:
            self._next = next(self._numbers, None)
        return self._next == number


def _argmax(values: list[float]) -> int:
    """Return the index of the first maximum; of an empty list, −1."""
    return values.index(max(values)) if values else -1


def _losses(trace: Trace) -> Iterator[str]:
    losses, result = trace.all("LOSS"), _only(trace, "RESULT")
    if not losses or losses[0].integer("step") != 0:
        yield "LOSS: there is no record at step 0"
        return
    config = _only(trace, "CONFIG")
    yield from _unequal("LOSS", "step", losses[-1].integer("step"), config.integer("max_steps"))
    yield from _unequal("RESULT", "step", result.integer("step"), losses[-1].integer("step"))
    for field, record in (("initial_validation", losses[0]), ("final_validation", losses[-1])):
        if result.get(field) != record.get("validation"):
            yield f"RESULT, field {field}: {result.get(field)}, but {record.label} has {record.get('validation')}"
    exact = [_exact_validation(trace, record) for record in (losses[0], losses[-1])]
    if exact[0] is not None and exact[1] is not None:
        expected = format_real(exact[0] - exact[1], negative_zero=True)
        if result.get("improvement") != expected:
            yield f"RESULT, field improvement: {result.get('improvement')}, but the bits of LOSS give {expected}"
    # Three printed values, each within half a unit of its last place; a little more for reading them as binary.
    elif abs(_gap(result)) > 3 * HALF_UNIT + 1e-12:
        yield f"RESULT, field improvement: {result.get('improvement')} is not the difference of the two losses"


def _gap(result: Record) -> float:
    difference = result.real("initial_validation") - result.real("final_validation")
    return difference - result.real("improvement")


def _exact_validation(trace: Trace, loss: Record) -> float | None:
    bits = trace.find("BITS", step=loss.get("step"))
    return bits.bits("validation")[0] if bits is not None and bits.has("validation") else None


def _generation(trace: Trace) -> Iterator[str]:
    config, generate = _only(trace, "CONFIG"), _only(trace, "GENERATE")
    vocabulary, prompt = config.integer("vocabulary"), generate.integers("prompt_ids")
    context = trace.all("STAGE")[0].integers("ids")
    if prompt != context:
        found, expected = shortened(str(prompt)), shortened(str(context))
        yield f"GENERATE, field prompt_ids: {found}, but STAGE index=0 has {expected}"
    for index, token in enumerate(generate.integers("ids")):
        if not 2 <= token < vocabulary:
            yield f"GENERATE, field ids[{index}]: {token} is not a content id below {vocabulary}"
    count, stop = len(generate.integers("ids")), generate.get("stop")
    if count > NEW_TOKENS or (count == NEW_TOKENS) != (stop == "limit"):
        yield f"GENERATE, field stop: {stop} after {count} tokens, but the limit is {NEW_TOKENS}"
    argmax = trace.all("STAGE")[-1].integer("argmax")
    if not 0 <= argmax < vocabulary:
        yield f"STAGE index=4, field argmax: {argmax} is not an id below {vocabulary}"


def _proof(trace: Trace) -> Iterator[str]:
    proof, split = _only(trace, "PROOF"), _only(trace, "SPLIT")
    for field, good in (
        ("replay", "bitwise"),
        ("test_text", "not_encoded_or_scored"),
        ("gradient_l1", "five_positive_finite"),
        ("parameter_nodes", "preserved"),
        ("gradients", "cleared"),
    ):
        if proof.get(field) != good:
            yield f"PROOF, field {field}: {proof.get(field)}"
    if split.get("test_text_used") != "no":
        yield "SPLIT, field test_text_used: yes, although the test text must stay unseen"
    first = trace.find("BITS", step=1)
    if first is not None and first.has("gradient_l1"):
        norms = first.bits("gradient_l1")
        if len(norms) != MATRICES or not all(isfinite(norm) and norm > 0.0 for norm in norms):
            yield "BITS step=1, field gradient_l1: PROOF states five positive finite norms"


def _printed_bits(evidence: Evidence, tally: Tally) -> Iterator[str]:
    """Compare printed reals with the bits of the same trace."""
    trace, grammar = evidence.main, evidence.question.grammar
    profile = evidence.question.request.profile
    for kind in trace.places:
        if kind == "LOSS":  # of which there may be very many
            yield from _printed_losses(trace, tally)
            continue
        for record in trace.all(kind) if kind not in OUTSIDE_BODY else ():
            for name, text in record.fields:
                rule = grammar.field_rule(profile, record, name)
                exact = rule.exact.look_up(trace, record) if rule is not None and rule.exact is not None else None
                if exact is not None:
                    listed = text.startswith("[")
                    tally[PRINTED] += length_of(text) if listed else 1
                    for problem in _printed(text, list(exact)[: length_of(text) if listed else 1]):
                        yield f"{record.label}, field {name}{problem}"


def _printed_losses(trace: Trace, tally: Tally) -> Iterator[str]:
    for (step, *printed), bits in losses_with_bits(trace):
        for name, text, exact in zip(("train", "validation"), printed, bits or (), strict=False):
            tally[PRINTED] += bool(exact)
            if exact and not prints_as(exact, text):
                for problem in _printed(text, [float_of_bits(exact)]):
                    yield f"{label_of('LOSS', step=step)}, field {name}{problem}"


def _printed(text: str, values: list[float]) -> Iterator[str]:
    listed = text.startswith("[")
    printed = format_reals(values, negative_zero=True) if listed else format_real(values[0], negative_zero=True)
    if printed != text:
        yield f": prints {shortened(text)}, but its bits are {shortened(printed)}"


def _unequal(record: str, field: str, found: int, expected: int) -> Iterator[str]:
    if found != expected:
        yield f"{record}, field {field}: {found}, but {expected} follows from the rest of the trace"


def _length(record: str, field: str, found: int, expected: int) -> Iterator[str]:
    if found != expected:
        yield f"{record}, field {field}: {found} items, but {expected} follow from CONFIG"


def _only(trace: Trace, kind: str) -> Record:
    return trace.all(kind)[0]
