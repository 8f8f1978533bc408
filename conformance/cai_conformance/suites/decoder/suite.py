"""The decode suites: the same checks over all phases, so that what differs is the phase."""

from __future__ import annotations

from functools import partial
from typing import Final

from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.plan import DECODE_PHASES, sizes_for
from cai_conformance.judges.cases import decoders, ngrams, sampling
from cai_conformance.judges.cases.answers import COMPARED, DISTINCT, TIES
from cai_conformance.judges.decoder import arms, caches, consistency, counters, selection, witnesses
from cai_conformance.judges.decoder.arms import arms_equal, arms_stopped
from cai_conformance.judges.decoder.caches import judge_caches
from cai_conformance.judges.decoder.consistency import judge_decode_consistency, judge_decode_learning
from cai_conformance.judges.decoder.counters import judge_counters, judge_identical_drafts, judge_self_draft
from cai_conformance.judges.decoder.selection import judge_selection
from cai_conformance.judges.decoder.witnesses import BUDGETS, CASES, judge_witnesses
from cai_conformance.judges.golden import RECORDS, golden_bits, golden_records
from cai_conformance.judges.grammar import READ, STATED, judge_conventions, judge_grammar
from cai_conformance.judges.replay import LINES, judge_replay
from cai_conformance.judges.vectors import vector_check
from cai_conformance.judges.witness import Witness
from cai_conformance.suites.decoder.cases import decoder_cases
from cai_conformance.suites.decoder.engine_checks import engine_checks
from cai_conformance.suites.decoder.inputs import VERSION, foreign_stories, generated_input, record_files
from cai_conformance.suites.suite import Check, Suite
from cai_conformance.trace.grammars.decoder import DECODER_GRAMMARS
from cai_conformance.verdicts import Level

TITLES: Final = {
    "cai.kv-cache": "KV cache",
    "cai.multi-token": "multi-token prediction as self-speculation",
    "cai.diagonal-ssm": "diagonal state-space recurrence",
    "cai.latent-attention": "multi-head latent attention",
    "cai.speculative": "speculation with a draft model and rollback",
    "cai.hybrid": "recurrence and latent attention in turn",
    "cai.grouped-hybrid": "the hybrid with grouped projections",
    "cai.local-global": "a local window, then global attention",
    "cai.parallel-block": "attention and feed-forward layer in parallel",
    "llama.dense": "the model of engines, untied",
    "llama.gqa-window": "the model of engines with shared keys, a window and a tied head",
    "course.decoder": "the model of the course",
}


def _checks(phase: DecodePhase) -> tuple[Check, ...]:
    """Return the checks of one suite, in the order of judging."""
    return (
        *_trace_checks(),
        *_vector_checks(phase),
        *engine_checks(phase),
        *_training_checks(phase),
        *_arm_checks(phase),
        *_run_checks(phase),
    )


def _trace_checks() -> tuple[Check, ...]:
    return (
        Check(
            "trace.format",
            Level.I0,
            "the trace keeps the grammar, its envelope and its digest",
            "Every record, field and value is read by the grammar; END must count the records and digest the bytes. A "
            "failure names line, record and field.",
            judge_grammar,
            of_edges=True,
            witnesses=(READ,),
        ),
        Check(
            "trace.convention",
            Level.I0,
            "the backend states the conventions of the suite",
            "Rotary layout, window, gate, norm, loss: two implementations that follow different conventions differ in "
            "every number. A difference is reported in words, and no number is compared.",
            judge_conventions,
            requires=("trace.format",),
            of_edges=True,
            witnesses=(STATED,),
        ),
    )


REJECTING: Final = (arms.REJECTED, arms.INSIDE, arms.ROLLED_BACK)
"""What speculation has to meet where guesses can be wrong."""
GENERATED: Final = ("full", "cached", "scripted", "self-draft", "latent", "absorbed", "mtp-cached")
"""The cases of ties in generations; all others have planted logits."""
PLANTED: Final = ("top-k-border", "top-k-all-tied", "top-p-border", "greedy", "zeros")

VECTOR_CHECKS: Final = (
    (
        "fwd.oracle",
        Level.I1,
        "the batch path gives the exact logits of given weights",
        "A sequence longer than the window, and one that starts at position 3000.",
        (COMPARED, decoders.SEEN, decoders.FAR.of("far"), decoders.LATER_HEADS.of("head")),
    ),
    (
        "kv.split",
        Level.I2,
        "a session fed in two calls gives the exact logits of given weights",
        "Cuts after one token, in the middle, and early at a far start.",
        (COMPARED, decoders.BEFORE, decoders.BEHIND, decoders.FAR.of("far")),
    ),
    (
        "gen.given",
        Level.I2,
        "every arm generates the right tokens on given weights",
        "Nobody has to train to be judged: the shipped weights are exact in bfloat16, float16 and float32.",
        (decoders.TOKENS, DISTINCT),
    ),
    (
        "smp.tie",
        Level.I2,
        "of two exactly equal maxima every arm takes the lower id",
        "Output columns come in equal pairs, so that every choice is a tie.",
        (decoders.TIED_CHOICES.of(*GENERATED), TIES.of(*PLANTED)),
    ),
    (
        "causal.flip",
        Level.I1,
        "another token moves the logits behind it, and none in front of it",
        "One token in the middle is exchanged; the answer is where logits change.",
        (decoders.MOVED, decoders.IN_FRONT),
    ),
    (
        "kv.reach",
        Level.I2,
        "another first token moves exactly the logits that a window reaches through all layers",
        "The last one that moves stands at layers · (window − 1). Full and cached path are asked apart.",
        (decoders.MOVED, decoders.OUT_OF_REACH),
    ),
    (
        "smp.seed",
        Level.I2,
        "seeded draws give the right tokens, and leave the generator in the right state",
        "Re-encoding, streaming and speculation by chance on given weights; no draw lies close to a border.",
        (sampling.DRAWS, DISTINCT),
    ),
    (
        "smp.law",
        Level.I2,
        "logits become the right probabilities",
        "Temperature, top-k, top-p and min-p, in this order; one weight is 1, so that nothing overflows.",
        (COMPARED,),
    ),
    (
        "smp.support",
        Level.I2,
        "temperature, top-k, top-p and min-p keep the right ids",
        "Masses that are crossed, masses that are met exactly, and what each stage sees of the one before.",
        (COMPARED, sampling.DROPPED.but("top-p-one")),
    ),
    (
        "smp.edge",
        Level.I2,
        "draws at the ends, a temperature of 0 and logits that are not finite are handled",
        "A row that must be refused is answered by −1 and takes no draw.",
        (
            COMPARED,
            sampling.AT_A_BORDER.of("first", "last", "border"),
            sampling.UNDRAWN.of("zero-temperature", "not-finite-greedy"),
            sampling.REFUSED.of("not-finite", "not-finite-greedy"),
        ),
    ),
    (
        "spec.law",
        Level.I3,
        "speculation by chance keeps the law of the target",
        "Acceptance, residual, whole passes with given draws, and every outcome of one place over a grid of draws.",
        (
            COMPARED,
            sampling.UNLIKELY.of("acceptance"),
            sampling.WITHOUT_RESIDUE.of("residual", "no-residual"),
            sampling.OUTCOMES.of("output"),
            sampling.ACCEPTED.of("all-accepted", "second-rejected"),
            sampling.REJECTED.of("first-rejected", "second-rejected", "excluded", "border"),
            sampling.BONUSES.of("all-accepted", "none-guessed"),
        ),
    ),
    (
        "opt.step",
        Level.T2,
        "three updates with clipping by one norm, scheduled rates and undecayed gains give the right weights",
        "Epsilon and decay are large, so that a wrong place for either shows.",
        (
            COMPARED,
            ngrams.STEPS,
            ngrams.CLIPPED.of("clipped", "large"),
            ngrams.KEPT.of("kept", "tiny"),
            ngrams.UNDERFLOWS.of("tiny"),
            ngrams.OVERFLOWS.of("large"),
        ),
    ),
)
"""Name, level, summary, explanation and witnesses of each check over vector cases.

A suite has those of which it has cases.
"""


def _vector_checks(phase: DecodePhase) -> tuple[Check, ...]:
    names: dict[str, list[str]] = {}
    for case in decoder_cases(phase, sizes_for(phase, "golden", 0)):
        names.setdefault(case.check, []).append(case.case)
    return tuple(
        Check(
            name,
            level,
            summary,
            explanation,
            vector_check(name),
            tuple(names[name]),
            requires=("trace.convention",),
            of_edges=True,
            witnesses=tuple(witness for witness in met if any(map(witness.needed_in, names[name]))),
        )
        for name, level, summary, explanation, met in VECTOR_CHECKS
        if name in names
    )


def _training_checks(phase: DecodePhase) -> tuple[Check, ...]:
    checks = _common_training_checks()
    if phase.selection is None:
        return checks
    return (
        *checks,
        Check(
            "run.selection",
            Level.T3,
            "rates and clipping are as stated, and the earliest smallest validation loss was selected",
            "Recounted from CONFIG and LOSS. The run has to have a smallest loss before its end, updates that were "
            "clipped and others that were not, and batches that were taken twice.",
            judge_selection,
            requires=("trace.format",),
            witnesses=selection.WITNESSES,
        ),
    )


def _common_training_checks() -> tuple[Check, ...]:
    return (
        Check(
            "data.split",
            Level.T0,
            "sizes and counts are those of the golden",
            "The model's sizes, its parameter counts, the split of the stories, and the plan of training.",
            golden_records(("CONFIG", "SPLIT")),
            requires=("trace.convention",),
            witnesses=(RECORDS.at_least(2),),
        ),
        Check(
            "run.golden",
            Level.T3,
            "losses after training print as in the golden",
            "Where this fails, the model was trained in another way, and no later number can agree.",
            golden_records(("LOSS", "RESULT")),
            requires=("data.split",),
            witnesses=(RECORDS.at_least(4),),
        ),
        Check(
            "run.bits",
            Level.T3,
            "parameters, moments and losses have the golden's bits",
            "Digests and doubles of the BITS records, where the backend computes in the golden's arithmetic.",
            golden_bits,
            requires=("data.split",),
            witnesses=(RECORDS,),
        ),
        Check(
            "run.learning",
            Level.T3,
            "training lowered the validation loss, on own stories by 30 % or more",
            "A model that did not learn repeats itself, and makes equalities of tokens empty.",
            judge_decode_learning,
            requires=("trace.format",),
            witnesses=(consistency.UPDATES,),
        ),
    )


def _arm_checks(phase: DecodePhase) -> tuple[Check, ...]:
    evicted = (arms.EVICTED,) if phase.has_window else ()

    def equal(name: str, level: Level, names: tuple[str, ...], summary: str, explanation: str, *met: Witness) -> Check:
        needed = (arms.TOKENS, arms.DISTINCT, *met, *evicted)
        return Check(
            name,
            level,
            summary,
            explanation,
            arms_equal(*names),
            names,
            requires=("trace.format",),
            witnesses=needed,
        )

    def stopped(name: str, kind: str, numbers: range, summary: str, explanation: str, *met: Witness) -> Check:
        judge, cases = arms_stopped(kind, numbers), tuple(map(str, numbers))
        return Check(
            name,
            Level.I3,
            summary,
            explanation,
            judge,
            cases,
            requires=("trace.format",),
            witnesses=(arms.CUT, *met),
        )

    speculative: tuple[str, ...] = ("scripted",)
    speculative += ("mtp-full", "mtp-cached") if phase.futures else ()
    speculative += ("draft",) if phase.has_draft else ()
    speculative += ("self-draft",) if phase.self_draft else ()
    checks = [
        Check(
            "fwd.stage",
            Level.I1,
            "every stage of a forward pass on trained weights prints as in the golden",
            "Stages in the order in which they are computed; the first that differs is where to look.",
            golden_records(("STAGE",)),
            requires=("run.golden",),
            witnesses=(RECORDS,),
        ),
        equal(
            "kv.inc",
            Level.I2,
            ("cached", "chunked"),
            "the session generates what re-encoding generates, step by step and in chunks",
            "Tokens in every arithmetic; where bits mean something, every bit of every logit.",
            arms.CHUNKS.of("chunked"),
        ),
    ]
    if phase.has_latent:
        checks.append(
            equal(
                "mla.absorb",
                Level.I2,
                ("latent", "absorbed"),
                "the two small caches of latent attention generate the same tokens",
                "Recomputing keys and values from latents keeps every bit; absorbing the up-projections regroups sums.",
            )
        )
    checks += [
        Check(
            "cache.formula",
            Level.I2,
            "caches hold what their formulas say, and no more is allocated",
            "Live floats, slack for rolling back and allocated arrays of every layer, recomputed from CONFIG.",
            judge_caches,
            requires=("trace.format",),
            witnesses=(caches.CACHES, *((caches.EVICTED,) if phase.has_window else ())),
        ),
        equal(
            "spec.eq",
            Level.I3,
            speculative,
            "speculation generates what plain greedy decoding generates",
            "Under guesses that are right up to planned offsets, and under the suite's own drafts.",
            arms.ACCEPTED,
            *(each.of(*(name for name in speculative if name != "self-draft")) for each in REJECTING),
        ),
        stopped(
            "spec.budget",
            "scripted.budget",
            BUDGETS,
            "no block exceeds the budget",
            "Budgets of 1 to 5 tokens, smaller and larger than a block.",
        ),
        stopped(
            "spec.eos",
            "scripted.eos",
            range(sizes_for(phase, "golden", 0).block + 1),
            "a stop inside a block ends the generation there",
            "A stop id at each offset of a block of right guesses.",
            arms.STOPPED,
        ),
        Check(
            "spec.trace",
            Level.I3,
            "the counters of speculation add up",
            "Tokens, passes, forwards and rolled-back rows, recounted from the DRAFT records.",
            judge_counters,
            requires=("trace.format",),
            witnesses=(counters.GENERATIONS, counters.PASSES, counters.REJECTED, counters.ROLLED_BACK),
        ),
    ]
    if phase.futures:
        checks.append(
            Check(
                "spec.cache",
                Level.I3,
                "the cached and the re-encoding self-speculation make the same passes",
                "A cache under multi-token self-speculation must not change what is guessed or accepted.",
                judge_identical_drafts,
                requires=("trace.format",),
                witnesses=(counters.PASSES, counters.REJECTED),
            )
        )
    if phase.self_draft:
        checks.append(
            Check(
                "spec.self",
                Level.I3,
                "a model that drafts for itself is always right",
                "Tokens never show a fault on the draft's side; its acceptance does.",
                judge_self_draft,
                requires=("trace.format",),
                witnesses=(counters.GUESSES,),
            )
        )
    checks.append(
        Check(
            "run.decode",
            Level.T3,
            "generations, passes and caches are those of the golden",
            "DECODE, DRAFT, CACHE and GENERATE records, aligned by key.",
            golden_records(("DECODE", "DRAFT", "CACHE", "GENERATE")),
            requires=("run.golden",),
            witnesses=(RECORDS.at_least(4),),
        )
    )
    return tuple(checks)


def _run_checks(phase: DecodePhase) -> tuple[Check, ...]:
    block = sizes_for(phase, "golden", 0).block
    return (
        Check(
            "run.witness",
            Level.I3,
            "the run met what makes its equalities mean something",
            "Varied and clearly chosen tokens, every length of acceptance, every offset of a stop, rows that left.",
            judge_witnesses,
            CASES,
            requires=("trace.format",),
            witnesses=witnesses.witnesses_of(block),
        ),
        Check(
            "trace.recount",
            Level.T3,
            "the trace agrees with itself",
            "Counts, RESULT against LOSS, printed values against their bits, GENERATE against DECODE, PROOF.",
            judge_decode_consistency,
            requires=("trace.format",),
            witnesses=(consistency.TEXTS, consistency.BITS),
        ),
        Check(
            "run.replay",
            Level.T3,
            "a second run in a fresh process gives the same bytes",
            "Another process, hash seed and thread count. A difference means that more than the seeds decides.",
            judge_replay,
            requires=("trace.format",),
            needs_replay=True,
            witnesses=(LINES,),
        ),
    )


def _suite(phase: DecodePhase) -> Suite:
    grammar = next(found for found in DECODER_GRAMMARS if found.suite == phase.suite)
    title = TITLES[phase.suite]
    return Suite(
        phase.suite,
        VERSION,
        f"decoder: {title}",
        f"A small decoder ({title}) is trained on generated stories, then decodes by every arm: re-encoding, "
        "streaming, chunked prefill, speculation with planned mistakes, and the arms of its own feature. All of them "
        "must generate the same tokens; in strict arithmetic, from the same bits.",
        "strict/1",
        grammar,
        _checks(phase),
        generated_input,
        lambda stories, _splits: foreign_stories(phase, stories),
        partial(decoder_cases, phase, sizes_for(phase, "golden", 0)),
        partial(record_files, phase),
        takes_stories=True,
        weights_file=phase.weights_layout.file,
    )


DECODE_SUITES: Final = tuple(map(_suite, DECODE_PHASES))
