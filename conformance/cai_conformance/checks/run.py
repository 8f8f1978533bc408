"""A training run against its golden: printed records, exact bits, and the checkpoint that was selected.

Printed text is compared exactly in every arithmetic: nothing is rounded away, and no tolerance is chosen. Bits are
compared where the arithmetic of the golden is also the backend's. What makes a selection mean something: a smallest
validation loss before the end, updates that were clipped and others that were not, batches taken more than once.

The judge of witnesses: did the run meet what makes its equalities mean something?

"the the the" equals "the the the" in every arm. So each prompt must give enough tokens, varied and clearly chosen;
the scripted draft must have met every length of acceptance, every offset of a stop and every small budget; rows must
really have left a window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, islice, pairwise, takewhile
from math import inf
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.checks.check import Judge, check
from cai_conformance.checks.contradictions import Problem, finding_of, label_of, losses_with_bits, shown_numbers
from cai_conformance.checks.decode_trace import DecodeTrace, decode_trace
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.witness import Met, Witness
from cai_conformance.trace.records import Record, float_of_bits, list_items
from cai_conformance.trace.values import FieldType
from cai_conformance.verdicts import Difference, Level

FOREIGN = "the input is not the suite's own, so there is no golden for it"

RECORDS: Final = Witness("record of the golden", "records of the golden")
NUMBERS: Final = Witness("compared number", "compared numbers")
LISTS: Final = ("ids", "values", "preview")
"""The fields of a STAGE record that hold what was computed."""


def golden_records(kinds: Collection[str]) -> Judge:
    """Return a judge that compares the records of some kinds with the golden, as one finding."""

    def judge(evidence: Evidence) -> tuple[Finding, ...]:
        golden = evidence.question.golden
        if golden is None:
            return (Finding.skipped(FOREIGN),)
        differences = _differences(evidence, kinds)
        if differences:
            return (Finding.failed(str(differences[0]), differences),)
        records = [record for record in golden.records if record.kind in kinds]
        text = f"{counted(len(records), 'record')} equal to the golden"
        return (Finding.passed(text, met=[RECORDS.met(len(records))]),)

    return judge


SIZES: Final = check(
    "data.split",
    Level.T0,
    "sizes and counts are those of the golden",
    "The model's sizes, its parameter counts, the split of the stories, and the plan of training.",
    witnesses=(RECORDS.at_least(2),),
    requires=("trace.convention",),
    catches="data.validation-trained encode.no-controls merge.all-documents",
)(golden_records(("CONFIG", "SPLIT")))
NGRAM_RESULTS: Final = check(
    "run.golden",
    Level.T3,
    "losses, continuation and proof print as in the golden",
    "What the training run ends in. Where the stages before are right and this is not, look at loss, gradient and "
    "optimiser.",
    witnesses=(RECORDS.at_least(4),),
    requires=("trace.convention", "data.split"),
    catches=(
        "trace.digits-cut-off encode.controls-exchanged gradient.never-zeroed seeds.weights-first "
        "training.embedding-kept training.step-per-parameter"
    ),
)(golden_records(("LOSS", "RESULT", "GENERATE", "PROOF")))
LOSSES: Final = check(
    "run.golden",
    Level.T3,
    "losses after training print as in the golden",
    "Where this fails, the model was trained in another way, and no later number can agree.",
    witnesses=(RECORDS.at_least(4),),
    requires=("data.split",),
    catches=(
        "data.end-never-learned data.one-order data.stories-shifted-twice evaluation.gradients-left "
        "evaluation.pads-in-denominator schedule.* selection.measured-on-training encode.controls-exchanged "
        "gradient.never-zeroed seeds.weights-first training.embedding-kept training.step-per-parameter"
    ),
)(golden_records(("LOSS", "RESULT")))
STAGES: Final = check(
    "fwd.stage",
    Level.I1,
    "every stage of a forward pass on trained weights prints as in the golden",
    "Stages in the order in which they are computed; the first that differs is where to look.",
    witnesses=(RECORDS,),
    requires=("run.golden",),
    catches=(
        "rope.start-minus-one rope.start-plus-one selection.values-go-on trace.stages-of-another-pass "
        "seeds.shuffle-first"
    ),
)(golden_records(("STAGE",)))
DECODING: Final = check(
    "run.decode",
    Level.T3,
    "generations, passes and caches are those of the golden",
    "DECODE, DRAFT, CACHE and GENERATE records, aligned by key.",
    witnesses=(RECORDS.at_least(4),),
    requires=("run.golden",),
    catches="cache.later-heads-exchanged mla.absorbed-scale-latent selection.values-go-on speculation.stale-heads",
)(golden_records(("DECODE", "DRAFT", "CACHE", "GENERATE")))


@check(
    "fwd.stage",
    Level.T1,
    "each stage of the first forward pass prints as in the golden",
    "The stages in the order in which they are computed, before any update: look at the first that differs.",
    cases=("context_ids", "embeddings", "concatenated", "hidden", "logits"),
    requires=("trace.convention", "data.split"),
    witnesses=(NUMBERS,),
    catches="init.variance-for-deviation seeds.shuffle-first",
)
def golden_stages(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare each STAGE record with the golden, one finding a stage."""
    golden = evidence.question.golden
    if golden is None:
        return (Finding.skipped(FOREIGN),)
    differences = _differences(evidence, {"STAGE"})
    return tuple(_stage_finding(stage, differences) for stage in golden.all("STAGE"))


@check(
    "run.bits",
    Level.T3,
    "parameters, moments and losses have the golden's bits",
    "Digests and doubles of the BITS records, where the backend computes in the golden's arithmetic.",
    requires=("data.split",),
    witnesses=(RECORDS,),
    catches="trace.single-precision",
)
def golden_bits(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the BITS records with the golden, where both are of one arithmetic."""
    golden = evidence.question.golden
    if golden is None:
        return (Finding.skipped(FOREIGN),)
    mine, theirs = golden.envelope.arithmetic, evidence.main.envelope.arithmetic
    if mine != theirs:
        return (Finding.skipped(f"the golden's bits are those of {mine}; the backend ran in {theirs}"),)
    if not evidence.main.all("BITS"):
        return (Finding.skipped("the trace carries no BITS records"),)
    differences = _differences(evidence, {"BITS"})
    if differences:
        return (Finding.failed(str(differences[0]), differences),)
    count = len(golden.all("BITS"))
    text = f"{counted(count, 'record')} equal to the golden in every bit"
    return (Finding.passed(text, met=[RECORDS.met(count)]),)


def _differences(evidence: Evidence, kinds: Collection[str]) -> tuple[Difference, ...]:
    found = tuple(found for found in evidence.differences if found.record.partition(" ")[0] in kinds)
    golden = evidence.question.golden
    if golden is None or golden.envelope.arithmetic == evidence.main.envelope.arithmetic:
        return found
    # Bits and digests of another arithmetic are not comparable; what is printed is.
    return tuple(difference for difference in found if not _is_exact(evidence, difference))


def _is_exact(evidence: Evidence, difference: Difference) -> bool:
    """Tell whether a difference is one of bits or of a digest."""
    grammar, profile = evidence.question.grammar, evidence.question.request.profile
    rule = grammar.rule(profile, difference.record.partition(" ")[0])
    types = {field.type for field in rule.fields if field.name == difference.field} if rule is not None else set()
    return bool(types) and all(kind.is_bits or kind is FieldType.SHA256 for kind in types)


def _stage_finding(stage: Record, differences: tuple[Difference, ...]) -> Finding:
    name = stage.get("name")
    mine = tuple(difference for difference in differences if difference.record == stage.label)
    if mine:
        return Finding.failed(str(mine[0]), mine, case=name)
    numbers = sum(len(list_items(stage.get(field))) for field in LISTS if stage.has(field))
    return Finding.passed("equal to the golden", name, [NUMBERS.met(numbers)])


BEFORE: Final = Witness("update before the selected step", "updates before the selected step")
BEHIND: Final = Witness("update behind the selected step", "updates behind the selected step")
CLIPPED: Final = Witness("clipped update", "clipped updates")
WHOLE: Final = Witness("update that was not clipped", "updates that were not clipped")
AGAIN: Final = Witness("batch taken again", "batches taken again")


@check(
    "run.selection",
    Level.T3,
    "rates and clipping are as stated, and the earliest smallest validation loss was selected",
    "Recounted from CONFIG and LOSS. The run has to have a smallest loss before its end, updates that were clipped and "
    "others that were not, and batches that were taken twice.",
    witnesses=(BEFORE, BEHIND, CLIPPED, WHOLE, AGAIN),
    catches="schedule.constant selection.last-kept",
)
def judge_selection(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the first contradiction, or what was met."""
    trace = decode_trace(evidence)
    problems: Iterator[Problem] = chain[Problem](_checkpoints(trace), _updates(trace), _selected(trace))
    losses, result = trace.trace.all("LOSS"), trace.trace.all("RESULT")[0]
    clipped = losses[-1].get("clipped")
    text = f"step {result.get('selected_step')} of {result.get('step')} selected, {clipped} updates clipped"
    return (finding_of(problems, text).having_met(*_met(trace)),)


def _met(trace: DecodeTrace) -> list[Met]:
    result, last = trace.trace.all("RESULT")[0], trace.trace.all("LOSS")[-1]
    steps, selected, clipped = result.integer("step"), result.integer("selected_step"), last.integer("clipped")
    return [
        BEFORE.met(selected),
        BEHIND.met(steps - selected),
        CLIPPED.met(clipped),
        WHOLE.met(steps - clipped),
        AGAIN.met(trace.size("steps") - trace.trace.all("SPLIT")[0].integer("batches")),
    ]


def rate_of(rates: list[float], steps: int, step: int) -> float:
    """Return the rate of an update: each rate has an equal part of the steps.

    rate_of([4, 2], 8, 5)  →  2
    """
    return next(rate for place, rate in enumerate(rates) if step <= steps * (place + 1) // len(rates))


def _checkpoints(trace: DecodeTrace) -> Iterator[str]:
    found = [int(step) for (step,) in trace.trace.rows("LOSS", "step")]
    if found != trace.config.integers("checkpoints"):
        shown = shown_numbers(found)
        yield f"LOSS: losses after the steps {shown}, but CONFIG has {trace.config.get('checkpoints')}"


def _updates(trace: DecodeTrace) -> Iterator[Problem]:
    steps, rates = trace.size("steps"), trace.config.reals("rates")
    if not rates:
        yield "CONFIG, field rates: there is none"
        return
    for text, rate, norm, clipped in trace.trace.rows("LOSS", "step", "rate", "norm", "clipped"):
        step = int(text)
        wanted = rate_of(rates, steps, step) if 0 < step <= steps else 0.0
        if float(rate) != wanted:
            yield partial(_problem, text, "rate", f"{rate}, but {wanted:.6f} follows from CONFIG")
        if not 0 <= int(clipped) <= step:
            yield partial(_problem, text, "clipped", f"{clipped} of {text} updates")
        if not float(norm) >= 0.0:
            yield partial(_problem, text, "norm", norm)
    yield from _clipped(trace)


def _clipped(trace: DecodeTrace) -> Iterator[Problem]:
    clip, written = trace.config.real("clip"), trace.config.get("clip")
    for earlier, later in pairwise(trace.trace.rows("LOSS", "step", "norm", "clipped")):
        step, norm, clipped = later
        more, between = int(clipped) - int(earlier[2]), int(step) - int(earlier[0])
        # Of the updates in between only the norm of the last one is told.
        least, most = (1, between) if float(norm) > clip else (0, between - 1)
        if norm != written and not least <= more <= most:
            text = f"{more} more in {between} updates, the last with a norm of {norm}"
            yield partial(_problem, step, "clipped", text)


def _problem(step: str, field: str, text: str) -> str:
    return f"{label_of('LOSS', step=step)}, field {field}: {text}"


def _selected(trace: DecodeTrace) -> Iterator[str]:
    result = trace.trace.all("RESULT")[0]
    best, step, loss, exact = inf, "", "", True
    for (text, _, printed), bits in losses_with_bits(trace.trace):
        validation = bits[1] if bits is not None else ""
        exact = exact and bool(validation)
        value = float_of_bits(validation) if validation else float(printed)
        if not step or value < best:
            best, step, loss = value, text, printed
    if result.get("selected_validation") != loss:
        stated = result.get("selected_validation")
        yield f"RESULT, field selected_validation: {stated}, but the smallest validation loss is {loss}"
    stated = result.get("selected_step")
    alike = trace.trace.find("LOSS", step=stated)
    # Of losses that print alike only exact bits tell the smallest.
    if stated != step and (exact or alike is None or alike.get("validation") != loss):
        yield f"RESULT, field selected_step: {stated}, but the earliest smallest validation loss is that of step {step}"


LEAST_PROMPTS = 3
LEAST_TOKENS = 32
LEAST_DISTINCT = 10
LEAST_MARGIN = 1e-4
BUDGETS = range(1, 6)

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


@check(
    "run.witness",
    Level.I3,
    "the run met what makes its equalities mean something",
    "Varied and clearly chosen tokens, every length of acceptance, every offset of a stop, rows that left.",
    cases=("variety", "acceptance", "stops", "window"),
)
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
