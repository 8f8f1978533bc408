"""Chapter 39: from a corpus to a text, in one run: tokenizer, training, evaluation, checkpoint, cached generation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cai_conformance.course import capstone
from cai_conformance.course.capstone import Experiment, experiment, in_order, written
from cai_conformance.course.chapter_34 import SCOPE
from cai_conformance.course.corpus import CourseCorpus
from cai_conformance.course.decoder_cache import CachedPath, complete_scores
from cai_conformance.course.generating import STOPS, PrefixPath, decisions, sampled
from cai_conformance.course.records import (
    Record,
    Separator,
    fixed,
    hash_text,
    joined,
    quoted,
    record,
    trace_bytes,
    word,
)
from cai_conformance.course.watching import counted_evaluation, same_bits, stored
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.checkpoints.course import (
    ByteBpe,
    course_checksum,
    read_course_checkpoint,
    write_course_checkpoint,
)
from cai_reference.text import BOS, EOS
from cai_reference.training.bigram import Bigram
from cai_reference.training.copies import Snapshot
from cai_reference.training.final_evaluation import (
    Baseline,
    FinalEvaluation,
    FinalReport,
    Provenance,
    SelectedDecoder,
)

HEADER_PLACE: Final = slice(14, 22)
"""Where a checkpoint says how long its header is."""

SLOT: Final = "overlapping-window-target-slot"
TRANSITION: Final = "within-document-next-token-transition"


def trace(arithmetic: Arithmetic, corpus: CourseCorpus) -> bytes:
    """Return the trace; it takes two trainings.

    Raises:
        CaiReferenceError: a partition has no window, or the selected model cannot go on.
    """
    return trace_bytes(Separator.BAR, _records(experiment(arithmetic, corpus), arithmetic))


def _records(made: Experiment, arithmetic: Arithmetic) -> Iterator[Record]:
    yield record("END_TO_END_LLM_TRACE_V3")
    yield from _data(made)
    yield from _training(made)
    yield from _evaluation(made, arithmetic)
    yield record("END", next="student-owned-decoder")


def _data(made: Experiment) -> Iterator[Record]:
    corpus, epochs = made.corpus, made.epochs
    names = {role: corpus.identifiers(role) for role in corpus.documents}
    yield record(
        "DATA",
        checksum=corpus.manifest.corpus_checksum,
        split=corpus.manifest.strategy,
        **{role: len(documents) for role, documents in names.items()},
        **{f"{role}_ids": joined(documents) for role, documents in names.items()},
    )
    alone = replace(corpus, documents={"train": corpus.documents["train"]}).tokenizer(capstone.MERGES)
    yield record(
        "TOKENIZER",
        layout=capstone.LAYOUT,
        requested=capstone.MERGES,
        learned=len(made.tokenizer.pairs),
        vocabulary=made.tokenizer.vocabulary_size,
        training_only=list(alone.pairs) == list(made.tokenizer.pairs),
        training_ids=joined(names["train"]),
        encoded=joined(sum(len(document.tokens) for document in epoch.documents) for epoch in epochs.values()),
    )
    evaluations = (made.plan.train_evaluation, made.plan.validation, in_order(epochs["test"]))
    yield record(
        "BATCHES",
        context=capstone.CONTEXT,
        update_batch_size=capstone.UPDATE_BATCH,
        evaluation_batch_size=capstone.EVALUATION_BATCH,
        windows=joined(len(epoch.slots()) for epoch in epochs.values()),
        evaluation_batches=joined(len(planned.plan) for planned in evaluations),
    )


def _training(made: Experiment) -> Iterator[Record]:
    sizes, run = made.sizes, made.run
    yield record(
        "MODEL",
        layers=sizes.layers,
        heads=sizes.heads,
        width=sizes.width,
        feed_forward=sizes.feed_forward,
        parameters=sum(values.size for values in run.selected.values),
    )
    yield record("TRAINING", updates=len(run.updates), seed=capstone.SEED, replay_bitwise=made.replays)
    for checkpoint in run.checkpoints:
        yield record(
            "SELECT",
            step=checkpoint.step,
            train=fixed(checkpoint.train, 9),
            validation=fixed(checkpoint.validation, 9),
            selected=checkpoint.step == run.selected.step,
        )


def _evaluation(made: Experiment, arithmetic: Arithmetic) -> Iterator[Record]:
    """Yield the records of the test windows, and those of what the selected model goes on to."""
    run, test = made.run, in_order(made.epochs["test"])
    manifest = made.corpus.manifest
    source = Provenance(
        manifest.corpus_checksum, manifest.strategy, f"byte-bpe-{capstone.LAYOUT}-{capstone.MERGES}", capstone.CONTEXT
    )
    gate = FinalEvaluation(test, source)
    bigram = Bigram([document.tokens for document in made.epochs["train"].documents], made.sizes.vocabulary)
    loss = run.selected_checkpoint.validation
    decoder = SelectedDecoder(run.selected_model, run.selected, loss, "validation", source)
    before = stored(run.selected_model.parameters)
    report = gate.evaluate(decoder, Baseline(bigram, "train", source), arithmetic)
    unchanged = before == stored(run.selected_model.parameters)
    _, nodes = counted_evaluation(run.selected_model, test, arithmetic)
    evidence = report.evidence
    yield record(
        "TEST",
        access=gate.access_count,
        documents=joined(evidence.documents),
        stride=test.epoch.windowing.stride,
        windows=report.windows,
        batches=report.batches,
        window_target_slots=evidence.slots,
        document_transition_occurrences=evidence.transitions,
        transition_multiplicity_counts=joined(f"{m}x{count}" for m, count in enumerate(evidence.multiplicities, 1)),
        window_slot_fingerprint=evidence.fingerprint,
        no_grad=nodes == 0,
        unchanged=unchanged,
    )
    yield from _metrics(report)
    yield record(
        "EVIDENCE",
        scope=SCOPE,
        within_run_selection_isolated=gate.access_count == 1 and nodes == 0 and unchanged,
        independent_generalization_estimate=False,
        architecture_superiority_evidence=False,
    )
    data = written(made)
    yield _checkpoint(made, data, arithmetic)
    yield _generation(made, data, arithmetic)
    yield record(
        "HISTORY",
        window_slot_unit=SLOT,
        window_target_slots=evidence.slots,
        document_transition_occurrences=evidence.transitions,
        bigram_context_tokens=1,
        decoder_context_capacity=made.sizes.context,
        decoder_window_slot_context_lengths=joined(range(1, test.epoch.windowing.context + 1)),
        bigram_window_slot_mean_nll_nats=fixed(report.baseline.mean, 9),
        decoder_window_slot_mean_nll_nats=fixed(report.decoder.mean, 9),
        window_slot_gap_nats=fixed(report.baseline.mean - report.decoder.mean, 9),
    )


def _metrics(report: FinalReport) -> Iterator[Record]:
    decoder, bigram = report.decoder, report.baseline
    yield record(
        "SLOT_METRIC",
        unit=SLOT,
        decoder_window_slot_mean_nll_nats=fixed(decoder.mean, 9),
        decoder_window_slot_perplexity=fixed(decoder.perplexity, 9),
        bigram_window_slot_mean_nll_nats=fixed(bigram.mean, 9),
        bigram_window_slot_perplexity=fixed(bigram.perplexity, 9),
        window_slot_gap_nats=fixed(bigram.mean - decoder.mean, 9),
        comparison_slot_set="shared-ordered-window-slots",
        decoder_lower_on_fixture=decoder.mean < bigram.mean,
    )
    yield record(
        "TRANSITION_METRIC",
        unit=TRANSITION,
        count=report.evidence.transitions,
        context_policy=f"longest-available-causal-prefix-up-to-{capstone.CONTEXT}",
        newest_position_only=True,
        reported=False,
        mean_nll="not-reported",
        perplexity="not-reported",
    )


def _checkpoint(made: Experiment, data: bytes, arithmetic: Arithmetic) -> Record:
    loaded, run = read_course_checkpoint(data), made.run
    model, optimizer, tokens = loaded.model(), loaded.adamw(), loaded.tokenizer
    exact = isinstance(tokens, ByteBpe) and list(tokens.pairs) == list(made.tokenizer.pairs)
    probe = made.tokenizer.encode(capstone.PROBE.encode())
    logits = [
        one.forward(Tape(arithmetic, recording=False), probe, 1)[0].value.tobytes()
        for one in (run.selected_model, model)
    ]
    return record(
        "CHECKPOINT",
        bytes=len(data),
        header=int.from_bytes(data[HEADER_PLACE], "little"),
        records=1 + len(loaded.parameters) + 2 * len(loaded.state.moments),
        checksum=hash_text(course_checksum(data)),
        selected=loaded.selected_step,
        optimizer=loaded.state.step,
        rng=word(loaded.generator),
        bytes_roundtrip=write_course_checkpoint(loaded) == data,
        model_bits_exact=run.selected.matches(model.parameters),
        optimizer_bits_exact=same_bits(Snapshot.of(run.selected.step, model.parameters, optimizer), run.selected),
        tokenizer_exact=exact,
        logit_probe=capstone.PROBE,
        logit_probe_ids=joined(probe),
        prompt_logits_bitwise=logits[0] == logits[1],
    )


def _generation(made: Experiment, data: bytes, arithmetic: Arithmetic) -> Record:
    """Continue the prompt from the checkpoint, with the cache and without."""
    loaded = read_course_checkpoint(data)
    model, sizes, prompt = loaded.model(), loaded.configuration, made.tokenizer.encode(capstone.PROMPT.encode())
    cached, whole = CachedPath(model, arithmetic), PrefixPath(model, arithmetic)
    found, other = (
        sampled(path, sizes, prompt, EOS, loaded.sampling(), arithmetic, capstone.SETTINGS, capstone.NEW_TOKENS)
        for path in (cached, whole)
    )
    content = [token for token in found.ids if token not in (BOS, EOS)]
    text = made.tokenizer.decode_content(content).decode("utf-8", "replace")
    work = cached.cache.work
    return record(
        "GENERATE",
        prompt=capstone.PROMPT,
        prompt_ids=joined(prompt),
        temperature=fixed(capstone.SETTINGS.temperature, 1),
        top_k=capstone.SETTINGS.top_k or sizes.vocabulary,
        seed=capstone.GENERATION_SEED,
        generated=joined(found.ids),
        text=quoted(text),
        prefixes=joined(cached.prefixes),
        stop=STOPS[found.stop],
        prefill=work.prefill_tokens,
        decode=work.decode_tokens,
        final_cache=cached.cache.length,
        cached_scores=work.scores,
        calculated_complete_prefix_scores=complete_scores(sizes, cached.prefixes),
        rng_initial=word(loaded.generator),
        rng_final=word(found.state),
        tokens_exact=found.ids == other.ids,
        decisions_bitwise=decisions(found) == decisions(other),
        rng_exact=found.state == other.state,
    )
