"""The final evaluation: the course's reports of chapters 34 and 39, the gate, the baseline, and what is refused."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import LIBM, STRICT, named
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing
from cai_reference.text.corpus import fnv1a64
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.errors import TrainingError
from cai_reference.training.final_evaluation import (
    Baseline,
    Bigram,
    FinalEvaluation,
    FinalReport,
    Provenance,
    SelectedDecoder,
    inspect_windows,
    score_bigram,
)
from cai_reference.training.model_kinds import ParameterSnapshot
from cai_reference.training.selection import SelectedRun
from support_course import needs_corpus
from support_course_fixtures import (
    MODEL,
    capstone_run,
    corpus_epoch,
    epoch,
    fresh,
    needs_published_functions,
    sequential,
    small_run,
)
from support_refusals import raises

SOURCE = Provenance("ch33-34-synthetic-v1", "fixed-role-split-v1", "literal-u32-v1", 2)
TEST = sequential(epoch("test"), 4)


def counted(label: str = "train", vocabulary: int = 5) -> Bigram:
    """Return the bigram of a partition of the small corpus."""
    return Bigram([document.tokens for document in epoch(label).documents], vocabulary)


def selected(run: SelectedRun[Llama], source: Provenance = SOURCE) -> SelectedDecoder:
    """Return what a run selected."""
    model, loss = run.selected_model, run.selected_checkpoint.validation
    return SelectedDecoder(model, run.selected, loss, "validation", source)


def baseline(source: Provenance = SOURCE) -> Baseline:
    """Return the bigram of the training documents."""
    return Baseline(counted(), "train", source)


def report(arithmetic: Arithmetic) -> FinalReport:
    """Return the report of chapter 34."""
    return FinalEvaluation(TEST, SOURCE).evaluate(selected(small_run(arithmetic.identifier)), baseline(), arithmetic)


class TestPublishedReports:
    """Every number that the course prints."""

    @pytest.mark.parametrize("arithmetic", [pytest.param("libm/1", marks=needs_published_functions), "strict/1"])
    def test_chapter_34(self, arithmetic: str) -> None:
        """Totals, means, perplexities, gap, fingerprint, counts."""
        found = report(named(arithmetic))
        assert (8, 12, 3, 24) == (found.selected_step, found.windows, found.batches, found.evidence.slots)
        assert ("test-a", "test-b") == found.evidence.documents
        assert "fnv1a64:dac4bb4d76beeb59" == found.evidence.fingerprint
        decoder, bigram = found.decoder, found.baseline
        assert ["38.584306", "1.607679", "4.991215"] == [
            f"{value:.6f}" for value in (decoder.total, decoder.mean, decoder.perplexity)
        ]
        assert ["53.681634", "2.236735", "9.362710"] == [
            f"{value:.6f}" for value in (bigram.total, bigram.mean, bigram.perplexity)
        ]
        assert "0.629055" == f"{bigram.mean - decoder.mean:.6f}"

    @pytest.mark.exhaustive
    @needs_corpus
    @needs_published_functions
    def test_chapter_39(self) -> None:
        """Nine decimals, and all seventeen digits of the decoder's perplexity."""
        source = replace(SOURCE, context=4)
        gate = FinalEvaluation(sequential(corpus_epoch("test"), 128), source)
        documents = [document.tokens for document in corpus_epoch("train").documents]
        run = capstone_run("libm/1")
        found = gate.evaluate(selected(run, source), Baseline(Bigram(documents, 266), "train", source), LIBM)
        assert (436, 4, 1744, 442) == (found.windows, found.batches, found.evidence.slots, found.evidence.transitions)
        assert (4, 4, 4, 430) == found.evidence.multiplicities
        assert "fnv1a64:77b836869f848986" == found.evidence.fingerprint
        assert 47.755180204808397 == found.decoder.perplexity
        assert ["3.866087547", "3.981342714", "53.588940583"] == [
            f"{value:.9f}" for value in (found.decoder.mean, found.baseline.mean, found.baseline.perplexity)
        ]
        assert "0.115255167" == f"{found.baseline.mean - found.decoder.mean:.9f}"


class TestEvidence:
    """What was read, and how often."""

    def test_the_fingerprint_is_over_names_starts_and_pairs(self) -> None:
        """Put together here, window by window."""
        data = b""
        for batch in TEST.plan:
            for slot in batch:
                document = epoch("test").documents[slot.document]
                data += document.identifier.encode() + b"\xff" + struct.pack("<Q", slot.start)
                for place in range(slot.start, slot.start + 2):
                    data += struct.pack("<II", document.tokens[place], document.tokens[place + 1])
        assert f"fnv1a64:{fnv1a64(data):016x}" == inspect_windows(TEST, 5).fingerprint

    def test_it_tells_batches_of_another_order_apart(self) -> None:
        """Though the set of windows is the same."""
        turned = PlannedEpoch(epoch("test"), TEST.plan[::-1])
        assert inspect_windows(TEST, 5).fingerprint != inspect_windows(turned, 5).fingerprint
        assert inspect_windows(TEST, 5).multiplicities == inspect_windows(turned, 5).multiplicities

    def test_transitions_at_the_ends_are_seen_less_often(self) -> None:
        """Two documents of 9 and 7 tokens at T = 2: four transitions once, ten twice."""
        evidence = inspect_windows(TEST, 5)
        assert ((4, 10), 14, 24) == (evidence.multiplicities, evidence.transitions, evidence.slots)

    @pytest.mark.parametrize(("stride", "expected"), [(1, (2, 2, 2, 5)), (2, (4, 6)), (4, (8,)), (5, (8,))])
    def test_the_stride_sets_the_overlap(self, stride: int, expected: tuple[int, ...]) -> None:
        """Windows of four of twelve tokens; the numbers are counted by hand."""
        document = EncodedDocument("d", "test", tuple(range(12)))
        assert (
            expected
            == inspect_windows(sequential(Epoch("test", (document,), Windowing(4, stride)), 3), 12).multiplicities
        )

    @pytest.mark.parametrize(
        ("token_at", "expected"), [(0, ("input", 0, 0)), (1, ("target", 0, 0)), (6, ("target", 1, 3))]
    )
    def test_ids_are_looked_at_slot_by_slot(self, token_at: int, expected: tuple[str, int, int]) -> None:
        """The input before the target; the position counts over the batch."""
        tokens = [0] * 9
        tokens[token_at] = 5
        planned = sequential(Epoch("test", (EncodedDocument("d", "test", tuple(tokens)),), Windowing(2)), 3)
        with raises(
            TrainingError(
                "evaluated-token-out-of-range",
                side=expected[0],
                batch=expected[1],
                position=expected[2],
                token=5,
                vocabulary=5,
            )
        ):
            inspect_windows(planned, 5)


class TestGate:
    """It opens once."""

    def test_a_second_look_is_refused(self) -> None:
        """Whatever it would be at."""
        gate = FinalEvaluation(TEST, SOURCE)
        assert 0 == gate.access_count
        gate.evaluate(selected(small_run("strict/1")), baseline(), STRICT)
        assert 1 == gate.access_count
        with raises(TrainingError("already-evaluated")):
            gate.evaluate(selected(small_run("strict/1")), baseline(), STRICT)

    @pytest.mark.parametrize(
        ("field", "value"), [("corpus", "other"), ("split", "other"), ("tokenizer", "other"), ("context", 3)]
    )
    def test_metadata_that_does_not_fit_leaves_it_closed(self, field: str, value: str | int) -> None:
        """Of the decoder, which is looked at first, and of the baseline."""
        gate = FinalEvaluation(TEST, SOURCE)
        other = replace(SOURCE, **{field: value})  # type: ignore[arg-type]
        was = str(getattr(SOURCE, field))
        run = small_run("strict/1")
        with raises(
            TrainingError("provenance-mismatch", model="selected decoder", field=field, expected=was, actual=str(value))
        ):
            gate.evaluate(selected(run, other), baseline(other), STRICT)
        with raises(TrainingError("provenance-mismatch", model="bigram", field=field, expected=was, actual=str(value))):
            gate.evaluate(selected(run), baseline(other), STRICT)
        assert 0 == gate.access_count
        gate.evaluate(selected(run), baseline(), STRICT)

    def test_a_model_that_was_changed_is_not_the_selected_one(self) -> None:
        """One bit in one gain; the gate stays closed."""
        gate, run = FinalEvaluation(TEST, SOURCE), small_run("strict/1")
        model, _ = fresh()
        for parameter, values in zip(model.parameters, run.selected.values, strict=True):
            parameter.assign(values)
        decoder = SelectedDecoder(model, run.selected, 1.0, "validation", SOURCE)
        gain = model.parameters[-1]
        gain.assign(np.nextafter(gain.value, 9.0))
        with raises(TrainingError("selected-state-changed", step=8)):
            gate.evaluate(decoder, baseline(), STRICT)
        gain.assign(run.selected.values[-1])
        assert 0 == gate.access_count
        gate.evaluate(decoder, baseline(), STRICT)

    def test_models_have_to_fit_the_windows_and_each_other(self) -> None:
        """A model of three positions, and a bigram of six ids."""
        gate = FinalEvaluation(TEST, SOURCE)
        long = Llama.initialize(replace(MODEL, context=3), SplitMix64(1))
        snapshot = ParameterSnapshot.of(0, long.parameters, small_run("strict/1").selected_optimizer)
        with raises(TrainingError("decoder-context-differs", expected=2, actual=3)):
            gate.evaluate(SelectedDecoder(long, snapshot, 1.0, "validation", SOURCE), baseline(), STRICT)
        six = Baseline(counted(vocabulary=6), "train", SOURCE)
        with raises(TrainingError("baseline-vocabulary-mismatch", decoder=5, baseline=6)):
            gate.evaluate(selected(small_run("strict/1")), six, STRICT)
        assert 0 == gate.access_count

    def test_reading_spends_it_even_if_it_fails(self) -> None:
        """A test token beyond the vocabulary."""
        foreign = Epoch("test", (EncodedDocument("d", "test", (0, 1, 7)),), Windowing(2))
        gate = FinalEvaluation(sequential(foreign, 4), SOURCE)
        with raises(
            TrainingError("evaluated-token-out-of-range", side="target", batch=0, position=1, token=7, vocabulary=5)
        ):
            gate.evaluate(selected(small_run("strict/1")), baseline(), STRICT)
        assert 1 == gate.access_count
        with raises(TrainingError("already-evaluated")):
            gate.evaluate(selected(small_run("strict/1")), baseline(), STRICT)

    def test_the_decoder_is_not_changed(self) -> None:
        """Values and gradients."""
        run = small_run("strict/1")
        before = [parameter.value.tobytes() for parameter in run.selected_model.parameters]
        report(STRICT)
        assert before == [parameter.value.tobytes() for parameter in run.selected_model.parameters]
        assert not any(parameter.gradient.any() for parameter in run.selected_model.parameters)


class TestBigram:
    """Counts of whole documents, smoothed."""

    def test_pairs_are_counted_within_documents(self) -> None:
        """Never across two; the published count is 22."""
        assert 22 == counted().transitions
        model = Bigram([(0, 1, 1, 1), (2, 1)], 3)
        assert (4, 2, 1, 1, 0) == (
            model.transitions,
            model.count(1, 1),
            model.count(0, 1),
            model.count(2, 1),
            model.count(1, 2),
        )

    def test_probabilities_are_smoothed(self) -> None:
        """(2 + ½) / (2 + 3·½), and a row adds up to 1."""
        model = Bigram([(0, 1, 1, 1), (2, 1)], 3, smoothing=0.5)
        assert 2.5 / 3.5 == model.probability(1, 1)
        assert 0.5 / 3.5 == model.probability(1, 0)
        for current in range(3):
            assert math.isclose(1.0, math.fsum(model.probability(current, token) for token in range(3)))

    def test_a_token_never_seen_leaves_equal_chances(self) -> None:
        """α / (α·V)."""
        assert [0.25] * 4 == [Bigram([(0, 1)], 4).probability(3, token) for token in range(4)]

    def test_losses_add_up_in_order(self) -> None:
        """Against plain Python; the perplexity is exp of the mean, not the mean of 1/p."""
        model, pairs = counted(), [(0, 1), (1, 1), (4, 0), (2, 3)]
        total = 0.0
        for pair in pairs:
            total += -math.log(model.probability(*pair))
        score = score_bigram(model, pairs, LIBM)
        assert (total, total / 4.0, math.exp(total / 4.0)) == (score.total, score.mean, score.perplexity)
        assert score.perplexity < sum(1.0 / model.probability(*pair) for pair in pairs) / 4.0

    def test_certain_and_impossible_tokens(self) -> None:
        """A smoothing below a rounding makes both; one adds nothing, the other is no score."""
        model = Bigram([(0, 1)], 2, smoothing=1e-300)
        assert (1.0, 0.0) == (model.probability(0, 1), score_bigram(model, [(0, 1)], STRICT).total)
        never = Bigram([(0,) * 9], 2, smoothing=5e-324)
        assert 0.0 == never.probability(0, 1)
        with raises(TrainingError("non-finite-test-score", model="bigram", mean=math.inf, perplexity=math.inf)):
            score_bigram(never, [(0, 1), (0, 0)], STRICT)
