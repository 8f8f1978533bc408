"""The suite `course.ngram`: every check, from the grammar of the trace to the bits of the last training step."""

from __future__ import annotations

from typing import Final

from cai_conformance.judges.cases import ngrams, special_texts, texts
from cai_conformance.judges.cases.answers import COMPARED, TIES
from cai_conformance.judges.golden import NUMBERS, RECORDS, golden_bits, golden_records, golden_stages
from cai_conformance.judges.grammar import READ, STATED, judge_conventions, judge_grammar
from cai_conformance.judges.ngram import consistency, initial_values, published
from cai_conformance.judges.ngram.consistency import judge_consistency, judge_learning
from cai_conformance.judges.ngram.published import judge_published_bits, judge_published_text
from cai_conformance.judges.replay import LINES, judge_replay
from cai_conformance.judges.vectors import vector_check
from cai_conformance.judges.witness import Witness
from cai_conformance.suites.ngram.cases import ngram_cases
from cai_conformance.suites.ngram.inputs import SUITE, VERSION, embedded_input, foreign_input, record_files
from cai_conformance.suites.suite import Check, Suite
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.verdicts import Level

STAGES: Final = ("context_ids", "embeddings", "concatenated", "hidden", "logits")


def _vectors(name: str, level: Level, summary: str, explanation: str, *witnesses: Witness) -> Check:
    """Return a check over vector cases; without other witnesses it must have compared something in each of them."""
    cases = tuple(case.case for case in ngram_cases() if case.check == name)
    return Check(
        name,
        level,
        summary,
        explanation,
        vector_check(name),
        cases,
        requires=("trace.convention",),
        of_edges=True,
        witnesses=witnesses or (COMPARED,),
    )


def _golden(name: str, level: Level, kinds: tuple[str, ...], summary: str, explanation: str, *requires: str) -> Check:
    judge, needed = golden_records(kinds), ("trace.convention", *requires)
    witnesses = (RECORDS.at_least(len(kinds)),)
    return Check(name, level, summary, explanation, judge, requires=needed, witnesses=witnesses)


CHECKS: Final = (
    Check(
        "trace.format",
        Level.I0,
        "the trace keeps the grammar, its envelope and its digest",
        "Every record, field and value is read by the grammar; END must count the records and digest the bytes. A "
        "failure names line, record and field. Nothing else can be judged before this holds.",
        judge_grammar,
        of_edges=True,
        witnesses=(READ,),
    ),
    Check(
        "trace.convention",
        Level.I0,
        "the backend states the conventions of the suite",
        "Two implementations that follow different conventions differ in every number. The CONVENTION record says "
        "which are followed; a difference there is reported in words, and no number is compared.",
        judge_conventions,
        requires=("trace.format",),
        of_edges=True,
        witnesses=(STATED,),
    ),
    _vectors(
        "tok.fit",
        Level.I0,
        "merges are learned as defined, ties and document borders included",
        "Small texts whose merges depend on one rule each: the tie rule, overlapping counts, borders, single "
        "occurrences, spaces. The published corpus never ties, so its trace cannot see these.",
        texts.MERGES,
        TIES.of("tie", "tie-last", "tie-numeric"),
        texts.OVERLAPS.of("overlap"),
        texts.BORDERS.of("border"),
        texts.SINGLES.of("single"),
        texts.SPACES.of("space"),
    ),
    _vectors(
        "tok.golden",
        Level.I0,
        "bytes become the ids that the merges prescribe",
        "One pass a merge in rank order, control ids apart from the bytes 0 and 1.",
        COMPARED,
        texts.MERGED.of("rank", "passes"),
        texts.LOW_BYTES.of("bytes"),
    ),
    _vectors(
        "tok.roundtrip",
        Level.I0,
        "any ids decode to their bytes, canonical or not",
        "Decoding is byte exact, also for sequences that encoding would not produce.",
        COMPARED,
        texts.MERGED_IDS.of("not-canonical"),
        texts.BROKEN.of("bytes"),
    ),
    _vectors(
        "tok.special",
        Level.I0,
        "special tokens are made only when asked for",
        "Text that spells a special token is text, and merges as text does: whoever wrote it must not be able to end a "
        "document. A caller who names the token gets its id, and no merge reaches over it.",
        special_texts.SPELLED,
        special_texts.ASKED.of("allowed"),
        texts.MERGED_IDS.of("spelled-merged", "allowed"),
    ),
    _vectors(
        "tok.stream",
        Level.I0,
        "text that is decoded id by id is the whole, in whole characters",
        "Ids end inside characters. What is given out for each id, joined, is the text; no piece ends inside a "
        "character. Of a character that never ends, one U+FFFD is left, or the end is refused.",
        special_texts.INSIDE,
        special_texts.CUT_OFF.of("cut-off"),
    ),
    _vectors(
        "num.elementary",
        Level.I1,
        "exp and log1p are those of strict/1",
        "The elementary functions that the model uses, on chosen and on drawn arguments, bit for bit.",
    ),
    _vectors(
        "fwd.oracle",
        Level.I1,
        "the forward pass gives the exact logits of given weights",
        "Drawn weights and the shipped ones; every bit depends on the order of sums and on rounding each product.",
    ),
    _vectors(
        "smp.tie",
        Level.I1,
        "of equal maxima the lowest id is taken",
        "Planted ties, signed zeros among them. Trained logits practically never tie.",
        TIES,
    ),
    _vectors(
        "smp.support",
        Level.I1,
        "masked ids are never chosen, and EOS ends without being appended",
        "In the published trace BOS is never the maximum and EOS never comes, so neither rule is exercised there.",
        ngrams.MASKED.of("masked", "low"),
        ngrams.ENDED.of("eos"),
        ngrams.CONTINUED.of("sliding", "window"),
    ),
    _vectors(
        "data.windows",
        Level.T0,
        "windows stay inside their document, and the last full one counts",
        "Documents shorter and longer than a window, strides, and a last window that just fits.",
        texts.WINDOWS,
        texts.SHORT.of("documents"),
        texts.FITTING,
    ),
    _vectors(
        "data.order",
        Level.T0,
        "batches follow the defined shuffle and its unbiased draws",
        "Fisher–Yates from the top; a bound for which half of all draws must be rejected at the low end.",
        COMPARED,
        texts.REJECTED.of("rejection", "below-threshold"),
        texts.LOWEST.of("threshold"),
        texts.MOVED.of("shuffle", "partial"),
        texts.NARROW.of("partial"),
    ),
    _golden(
        "data.split",
        Level.T0,
        ("CONFIG", "SPLIT"),
        "sizes and counts are those of the golden",
        "How many documents, windows and batches there are, and with which hyperparameters the model is trained.",
    ),
    _vectors(
        "init.golden",
        Level.T0,
        "initial weights have the defined bits",
        "limit · (2u − 1), row by row. Interpolating between the limits instead gives other last bits.",
    ),
    Check(
        "init.stats",
        Level.T0,
        "initial weights have the mean and the spread of their law, and no two tensors are the same draws",
        "Of any generator, in any arithmetic: limits that are forgotten to be rooted, and tensors that all begin with "
        "the same draws. By how much a mean may be off follows from how many numbers there are.",
        initial_values.judge_initial_statistics,
        initial_values.CASES,
        requires=("trace.convention",),
        of_edges=True,
        witnesses=initial_values.WITNESSES,
    ),
    Check(
        "fwd.stage",
        Level.T1,
        "each stage of the first forward pass prints as in the golden",
        "The stages in the order in which they are computed, before any update: look at the first that differs.",
        golden_stages,
        STAGES,
        ("trace.convention", "data.split"),
        witnesses=(NUMBERS,),
    ),
    _vectors(
        "loss.weights",
        Level.T1,
        "the mean loss of given logits is exact",
        "Ties, dominated rows, long tails and many rows: which terms are summed, in which order, through log1p.",
        ngrams.ROWS,
        ngrams.TIED_MAXIMA.of("uniform", "ties"),
    ),
    _vectors(
        "loss.shift",
        Level.T1,
        "a constant added to all logits does not overflow",
        "Logits near 10⁴, whose exponentials do not exist.",
        ngrams.LARGE,
    ),
    _vectors(
        "eval.batch",
        Level.T1,
        "evaluation weighs batches by their rows",
        "Seven windows in batches of three: the mean of batch means differs.",
        texts.WINDOWS,
        texts.NARROW,
    ),
    _vectors(
        "grad.golden",
        Level.T1,
        "gradients of a small model are exact",
        "Repeated ids, several rows, all five matrices: each bit depends on the order of accumulation.",
        COMPARED,
        ngrams.REPEATED,
    ),
    _vectors(
        "opt.step",
        Level.T2,
        "AdamW steps are exact",
        "Running products against pow over fifteen steps, a large decay, a large epsilon on small gradients.",
        COMPARED,
        ngrams.STEPS,
    ),
    Check(
        "trace.recount",
        Level.T3,
        "the trace agrees with itself",
        "Counts from CONFIG and SPLIT, RESULT from LOSS, PROOF from the other records, printed values from their bits.",
        judge_consistency,
        requires=("trace.format",),
        witnesses=(consistency.TOKENS, consistency.PRINTED),
    ),
    Check(
        "run.learning",
        Level.T3,
        "training lowered the loss",
        "A model that did not learn makes most other checks empty. On the suite's own and the published corpus the "
        "validation loss must fall, too, by more than 0.01 nats; on a foreign one it may be unlike training.",
        judge_learning,
        requires=("trace.format",),
        witnesses=(consistency.UPDATES,),
    ),
    _golden(
        "run.golden",
        Level.T3,
        ("LOSS", "RESULT", "GENERATE", "PROOF"),
        "losses, continuation and proof print as in the golden",
        "What the training run ends in. Where the stages before are right and this is not, look at loss, gradient "
        "and "
        "optimiser.",
        "data.split",
    ),
    Check(
        "run.bits",
        Level.T3,
        "parameters, moments and losses after every step have the golden's bits",
        "Digests and doubles of the BITS records, where the backend computes in the golden's arithmetic.",
        golden_bits,
        requires=("trace.convention", "data.split"),
        witnesses=(RECORDS,),
    ),
    Check(
        "run.replay",
        Level.T3,
        "a second run in a fresh process gives the same bytes",
        "Another process, hash seed and thread count. A difference means that something else than the seeds decides.",
        judge_replay,
        requires=("trace.format",),
        needs_replay=True,
        witnesses=(LINES,),
    ),
    Check(
        "published.text",
        Level.T3,
        "on the published corpus, the body is the published trace",
        "Byte for byte, in every arithmetic. Judged when the corpus given is the published one.",
        judge_published_text,
        requires=("trace.format",),
        witnesses=(published.LINES,),
    ),
    Check(
        "published.bits",
        Level.T3,
        "on the published corpus in libm/1, parameters have the published bits",
        "Sixteen digests that hold with the C library they were measured on; its self-test decides whether this "
        "machine has one like it.",
        judge_published_bits,
        requires=("trace.format",),
        witnesses=(published.STEPS,),
    ),
)

COURSE_NGRAM_SUITE: Final = Suite(
    SUITE,
    VERSION,
    "neural n-gram: tokenizer, split, training, greedy continuation",
    "A neural n-gram language model on a small bilingual corpus: byte-pair merges learned on the training documents, a "
    "held-out split, a SwiGLU network of 3384 parameters, fifteen AdamW steps, a greedy continuation. Its printed "
    "trace is the published format of a course; vector cases ask for what that trace cannot show.",
    "strict/1",
    COURSE_NGRAM,
    CHECKS,
    embedded_input,
    foreign_input,
    ngram_cases,
    record_files,
)
