"""Chapter 39: from a corpus to a text, in one run: tokenizer, training, evaluation, checkpoint, cached generation.

The corpus of chapter 39: documents by partition, the tokenizer that is trained on one of them, and windows.

The capstone of the course, chapter 39: the experiment up to the selected model and its checkpoint.

A tokenizer of eight merges, a decoder of 1,188 numbers, 32 updates. Rounding grows on the way: on the course's corpus
nine decimals of the perplexity tell arithmetics apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cai_conformance.errors import FixtureError
from cai_course.caches import CachedPath, complete_scores
from cai_course.chapter_34 import SCOPE
from cai_course.checkpoint import (
    ByteBpe,
    CourseCheckpoint,
    course_checksum,
    read_course_checkpoint,
    write_course_checkpoint,
)
from cai_course.checkpoint.content import course_configuration
from cai_course.records import CourseRecord, Separator, fixed, hash_text, joined, quoted, record, trace_bytes, word
from cai_course.small_decoder import STOPS, CoursePrefixPath, decisions, sampled
from cai_course.watching import counted_evaluation, same_bits, stored
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.decoding.sampling import SamplingSettings
from cai_reference.errors import CaiReferenceError
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.corpus import Document, Manifest, parse_corpus, parse_manifest, partition
from cai_reference.text.tokenizer import BOS, EOS, BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, everything
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.final_evaluation import (
    Baseline,
    Bigram,
    FinalEvaluation,
    FinalReport,
    Provenance,
    SelectedDecoder,
)
from cai_reference.training.model_kinds import ParameterSnapshot
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectedRun, SelectionPlan


@dataclass(frozen=True)
class CourseCorpus:
    """A corpus that was split.

    Attributes:
        manifest: how.
        documents: by partition, in the order of the corpus.
    """

    manifest: Manifest
    documents: dict[str, tuple[Document, ...]]

    @classmethod
    def of(cls, corpus: bytes, splits: bytes) -> CourseCorpus:
        """Read a corpus file and its manifest.

        Raises:
            FixtureError: they are not valid, or do not fit each other.
        """
        stage = "Corpus"
        try:
            documents = parse_corpus(corpus)
            stage = "Split"
            manifest = parse_manifest(splits)
            split = partition(manifest, documents)
        except CaiReferenceError as error:
            raise FixtureError(stage, str(error)) from error
        return cls(manifest, {"train": split.train, "validation": split.validation, "test": split.test})

    def identifiers(self, role: str) -> tuple[str, ...]:
        """Return the names of the documents of a partition."""
        return tuple(document.identifier for document in self.documents[role])

    def tokenizer(self, merges: int) -> BpeTokenizer:
        """Return the tokenizer of the training documents; it may have fewer merges than asked for."""
        texts = [document.text.encode() for document in self.documents["train"]]
        return BpeTokenizer([merge.pair for merge in train(texts, merges)])

    def epoch(self, role: str, tokenizer: BpeTokenizer, context: int) -> Epoch:
        """Return the windows of the documents of a partition, BOS and EOS included."""
        documents = tuple(
            EncodedDocument(one.identifier, role, tuple(tokenizer.encode_document(one.text)))
            for one in self.documents[role]
        )
        return Epoch(role, documents, Windowing(context))


LAYOUT: Final = 1
"""Of token ids: BOS and EOS, bytes, merges."""

MERGES: Final = 8
CONTEXT: Final = 4
UPDATE_BATCH: Final = 16
EVALUATION_BATCH: Final = 128
UPDATES: Final = 32
RATE: Final = 0.04
MAXIMUM_NORM: Final = 1.0
SEED: Final = 39
"""Of the initial values, and of the order of batches."""

PROMPT: Final = "A"
PROBE: Final = "At"
"""The text whose logits are compared before and after the checkpoint."""

SETTINGS: Final = SamplingSettings(0.8, 4)
NEW_TOKENS: Final = 3
GENERATION_SEED: Final = 38


@dataclass(frozen=True)
class CapstoneExperiment:
    """Everything up to the selected model.

    Attributes:
        corpus: what it was given.
        tokenizer: trained on the training documents.
        epochs: the windows of each partition.
        plan: what is trained on what.
        run: the training.
        replays: whether a second training gave the same bits.
    """

    corpus: CourseCorpus
    tokenizer: BpeTokenizer
    epochs: dict[str, Epoch]
    plan: SelectionPlan
    run: SelectedRun[Llama]
    replays: bool

    @property
    def sizes(self) -> LlamaConfiguration:
        """Of the model."""
        return self.run.selected_model.configuration


def experiment(arithmetic: Arithmetic, corpus: CourseCorpus) -> CapstoneExperiment:
    """Train the tokenizer, then the model, twice."""
    tokenizer = corpus.tokenizer(MERGES)
    epochs = {role: corpus.epoch(role, tokenizer, CONTEXT) for role in corpus.documents}
    plan = SelectionPlan(
        PlannedEpoch(epochs["train"], shuffled_plan(epochs["train"], UPDATE_BATCH, SplitMix64(SEED))),
        in_order(epochs["train"]),
        in_order(epochs["validation"]),
        SteppedRate(((RATE, UPDATES),)),
        (0, UPDATES),
        MAXIMUM_NORM,
    )
    run, again = (_trained(plan, tokenizer.vocabulary_size, arithmetic) for _ in range(2))
    replays = (
        (run.updates, run.checkpoints) == (again.updates, again.checkpoints)
        and same_bits(run.selected, again.selected)
        and same_bits(run.final, again.final)
    )
    return CapstoneExperiment(corpus, tokenizer, epochs, plan, run, replays)


def _trained(plan: SelectionPlan, vocabulary: int, arithmetic: Arithmetic) -> SelectedRun[Llama]:
    sizes = course_configuration(
        vocabulary=vocabulary,
        width=4,
        heads=1,
        feed_forward=4,
        layers=1,
        positions=CONTEXT,
        rope_base=10000.0,
        epsilon=1e-6,
    )
    model = Llama.initialize(sizes, SplitMix64(SEED))
    return plan.run(model, AdamW(AdamWConfiguration(RATE), everything(model.parameters)), arithmetic)


def in_order(epoch: Epoch) -> PlannedEpoch:
    """Return windows in the order and the batches of evaluation."""
    return PlannedEpoch(epoch, sequential_plan(epoch, EVALUATION_BATCH))


def written(made: CapstoneExperiment) -> bytes:
    """Return the checkpoint of the selected model; its generator is the one that generation starts from."""
    run = made.run
    tokens, generator = ByteBpe(tuple(made.tokenizer.pairs)), SplitMix64(GENERATION_SEED)
    return write_course_checkpoint(
        CourseCheckpoint.of(tokens, run.selected_model, run.selected_optimizer, generator, None)
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


def _records(made: CapstoneExperiment, arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    yield record("END_TO_END_LLM_TRACE_V3")
    yield from _data(made)
    yield from _training(made)
    yield from _evaluation(made, arithmetic)
    yield record("END", next="student-owned-decoder")


def _data(made: CapstoneExperiment) -> Iterator[CourseRecord]:
    corpus, epochs = made.corpus, made.epochs
    names = {role: corpus.identifiers(role) for role in corpus.documents}
    yield record(
        "DATA",
        checksum=corpus.manifest.corpus_checksum,
        split=corpus.manifest.strategy,
        **{role: len(documents) for role, documents in names.items()},
        **{f"{role}_ids": joined(documents) for role, documents in names.items()},
    )
    alone = replace(corpus, documents={"train": corpus.documents["train"]}).tokenizer(MERGES)
    yield record(
        "TOKENIZER",
        layout=LAYOUT,
        requested=MERGES,
        learned=len(made.tokenizer.pairs),
        vocabulary=made.tokenizer.vocabulary_size,
        training_only=list(alone.pairs) == list(made.tokenizer.pairs),
        training_ids=joined(names["train"]),
        encoded=joined(sum(len(document.tokens) for document in epoch.documents) for epoch in epochs.values()),
    )
    evaluations = (made.plan.train_evaluation, made.plan.validation, in_order(epochs["test"]))
    yield record(
        "BATCHES",
        context=CONTEXT,
        update_batch_size=UPDATE_BATCH,
        evaluation_batch_size=EVALUATION_BATCH,
        windows=joined(len(epoch.slots()) for epoch in epochs.values()),
        evaluation_batches=joined(len(planned.plan) for planned in evaluations),
    )


def _training(made: CapstoneExperiment) -> Iterator[CourseRecord]:
    sizes, run = made.sizes, made.run
    yield record(
        "MODEL",
        layers=sizes.layers,
        heads=sizes.heads,
        width=sizes.width,
        feed_forward=sizes.feed_forward,
        parameters=sum(values.size for values in run.selected.values),
    )
    yield record("TRAINING", updates=len(run.updates), seed=SEED, replay_bitwise=made.replays)
    for checkpoint in run.checkpoints:
        yield record(
            "SELECT",
            step=checkpoint.step,
            train=fixed(checkpoint.train, 9),
            validation=fixed(checkpoint.validation, 9),
            selected=checkpoint.step == run.selected.step,
        )


def _evaluation(made: CapstoneExperiment, arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    """Yield the records of the test windows, and those of what the selected model goes on to."""
    run, test = made.run, in_order(made.epochs["test"])
    manifest = made.corpus.manifest
    source = Provenance(manifest.corpus_checksum, manifest.strategy, f"byte-bpe-{LAYOUT}-{MERGES}", CONTEXT)
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


def _metrics(report: FinalReport) -> Iterator[CourseRecord]:
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
        context_policy=f"longest-available-causal-prefix-up-to-{CONTEXT}",
        newest_position_only=True,
        reported=False,
        mean_nll="not-reported",
        perplexity="not-reported",
    )


def _checkpoint(made: CapstoneExperiment, data: bytes, arithmetic: Arithmetic) -> CourseRecord:
    loaded, run = read_course_checkpoint(data), made.run
    model, optimizer, tokens = loaded.model(), loaded.adamw(), loaded.tokenizer
    exact = isinstance(tokens, ByteBpe) and list(tokens.pairs) == list(made.tokenizer.pairs)
    probe = made.tokenizer.encode(PROBE.encode())
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
        optimizer_bits_exact=same_bits(
            ParameterSnapshot.of(run.selected.step, model.parameters, optimizer), run.selected
        ),
        tokenizer_exact=exact,
        logit_probe=PROBE,
        logit_probe_ids=joined(probe),
        prompt_logits_bitwise=logits[0] == logits[1],
    )


def _generation(made: CapstoneExperiment, data: bytes, arithmetic: Arithmetic) -> CourseRecord:
    """Continue the prompt from the checkpoint, with the cache and without."""
    loaded = read_course_checkpoint(data)
    model, sizes, prompt = loaded.model(), loaded.configuration, made.tokenizer.encode(PROMPT.encode())
    cached, whole = CachedPath(model, arithmetic), CoursePrefixPath(model, arithmetic)
    found, other = (
        sampled(path, sizes, prompt, EOS, loaded.sampling(), arithmetic, SETTINGS, NEW_TOKENS)
        for path in (cached, whole)
    )
    content = [token for token in found.ids if token not in (BOS, EOS)]
    text = made.tokenizer.decode_content(content).decode("utf-8", "replace")
    work = cached.cache.work
    return record(
        "GENERATE",
        prompt=PROMPT,
        prompt_ids=joined(prompt),
        temperature=fixed(SETTINGS.temperature, 1),
        top_k=SETTINGS.top_k or sizes.vocabulary,
        seed=GENERATION_SEED,
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
