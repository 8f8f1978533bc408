"""Chapter 34: the selected decoder and a bigram on the test windows, once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cai_course import small_decoder as small
from cai_course.chapter_33 import selection_rejects_test
from cai_course.records import CourseRecord, Separator, fixed, joined, record, trace_bytes
from cai_course.watching import counted_evaluation, stored
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.errors import TrainingError
from cai_reference.training.final_evaluation import (
    Baseline,
    Bigram,
    FinalEvaluation,
    FinalReport,
    Provenance,
    Score,
    SelectedDecoder,
)

VERSION: Final = 1
PROVENANCE: Final = Provenance("ch33-34-synthetic-v1", "fixed-role-split-v1", "literal-u32-v1", small.CONTEXT)
DECODER: Final = "selected-decoder"
BIGRAM: Final = "frozen-bigram"

SCOPE: Final = "fixed-fixture-regression"
"""What both chapters that evaluate say of their evidence: it is a fixture, and shows nothing beyond it."""


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    return trace_bytes(Separator.BAR, _records(arithmetic))


def closes(gate: FinalEvaluation, decoder: SelectedDecoder, baseline: Baseline, arithmetic: Arithmetic) -> bool:
    """Tell whether a gate that is spent refuses to open again."""
    try:
        gate.evaluate(decoder, baseline, arithmetic)
    except TrainingError as error:
        if error.code != "already-evaluated":
            raise
        return gate.access_count == 1
    return False


def _records(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    run = small.selected_run(arithmetic)
    test = small.sequential(small.epoch("test"), small.TEST_BATCH)
    gate = FinalEvaluation(test, PROVENANCE)
    bigram = Bigram(list(small.DOCUMENTS["train"].values()), small.VOCABULARY)
    loss = run.selected_checkpoint.validation
    decoder = SelectedDecoder(run.selected_model, run.selected, loss, "validation", PROVENANCE)
    baseline = Baseline(bigram, "train", PROVENANCE)
    asserted = _provenance_is_asserted(gate, decoder, baseline, arithmetic)
    before, openings = stored(run.selected_model.parameters), gate.access_count
    report = gate.evaluate(decoder, baseline, arithmetic)
    values_kept, gradients_kept = (
        one == other for one, other in zip(before, stored(run.selected_model.parameters), strict=True)
    )
    mean, nodes = counted_evaluation(run.selected_model, test, arithmetic)
    rejected = selection_rejects_test(arithmetic)
    lower = report.decoder.mean < report.baseline.mean
    yield record("FINAL_EVALUATION_TRACE_V1")
    yield record(
        "REPORT",
        version=VERSION,
        partition=test.epoch.partition,
        selected_step=report.selected_step,
        selection_criterion=f"{decoder.partition}-only",
        gate_openings_before=openings,
        gate_openings_after=gate.access_count,
    )
    yield record("GATE", selection_test_partition_rejected=rejected)
    yield record(
        "PROVENANCE",
        corpus=PROVENANCE.corpus,
        split=PROVENANCE.split,
        tokenizer=PROVENANCE.tokenizer,
        vocabulary=run.selected_model.configuration.vocabulary,
        context=PROVENANCE.context,
        documents=joined(report.evidence.documents),
        windows=report.windows,
        batches=report.batches,
        targets=report.evidence.slots,
        target_fingerprint=report.evidence.fingerprint,
    )
    yield _score(DECODER, "validation", report, report.decoder)
    yield _score(BIGRAM, "none", report, report.baseline)
    yield record(
        "COMPARE",
        lower_loss=DECODER if lower else BIGRAM,
        loss_gap=fixed(report.baseline.mean - report.decoder.mean, 6),
        same_targets=_targets(test) == list(report.evidence.pairs),
        decoder_lower_on_fixture=lower,
        evidence_scope=SCOPE,
        within_run_selection_isolated=rejected and openings == 0 and gate.access_count == 1 and values_kept,
        fixture_selected_for_ordering=True,
        independent_generalization_estimate=False,
        architecture_superiority_evidence=False,
    )
    yield record(
        "PROOF",
        token_weighted=mean == report.decoder.mean and _is_token_weighted(report, test, decoder, arithmetic),
        provenance_assertions_match=asserted,
        graph_nodes=nodes,
        parameters_unchanged=values_kept,
        gradients_unchanged=gradients_kept,
        selection_closed=rejected and closes(gate, decoder, baseline, arithmetic),
    )
    yield record("END_FINAL_EVALUATION_TRACE")


def _score(model: str, selected_by: str, report: FinalReport, score: Score) -> CourseRecord:
    return record(
        "SCORE",
        model=model,
        fit_partition="train",
        selected_by=selected_by,
        targets=report.evidence.slots,
        total_nll=fixed(score.total, 6),
        mean_nll=fixed(score.mean, 6),
        perplexity=fixed(score.perplexity, 6),
    )


def _targets(test: PlannedEpoch) -> list[tuple[int, int]]:
    """Return input and target of every slot that the decoder is scored on, taken from its own batches."""
    return [pair for batch in test.batches for story in batch.stories for pair in itertools.pairwise(story)]


def _is_token_weighted(
    report: FinalReport, test: PlannedEpoch, decoder: SelectedDecoder, arithmetic: Arithmetic
) -> bool:
    """Tell whether the total is the sum of all windows' own totals, each scored alone."""
    totals = [
        float(decoder.model.loss(Tape(arithmetic, recording=False), alone).value) * float(alone.target_count)
        for alone in small.sequential(test.epoch, 1).batches
    ]
    return math.isclose(math.fsum(totals), report.decoder.total, rel_tol=1e-12)


def _provenance_is_asserted(
    gate: FinalEvaluation, decoder: SelectedDecoder, baseline: Baseline, arithmetic: Arithmetic
) -> bool:
    """Tell whether both models' provenance is the gate's, and another one would be refused with the gate closed."""
    other = replace(PROVENANCE, corpus=f"not {PROVENANCE.corpus}")
    refused = 0
    for wrong in ((replace(decoder, provenance=other), baseline), (decoder, replace(baseline, provenance=other))):
        try:
            gate.evaluate(*wrong, arithmetic)
        except TrainingError as error:
            if error.code != "provenance-mismatch":
                raise
            refused += 1
    return refused == 2 and gate.access_count == 0 and decoder.provenance == baseline.provenance == PROVENANCE
