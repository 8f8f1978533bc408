"""Training with selection by validation loss: the course's runs of chapters 33 and 39, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest

from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import sequential_plan
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, all_but_gains
from cai_reference.training.decoder_training import PlannedEpoch, window_batch
from cai_reference.training.errors import AdamWError
from cai_reference.training.model_kinds import ParameterSnapshot, copy_of, copy_of_optimizer
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectedRun, evaluate_windows
from support_course import needs_corpus
from support_course_fixtures import (
    CAPSTONE_CHECKPOINTS,
    CHECKPOINTS,
    MAXIMUM_NORM,
    MODEL,
    UPDATES,
    capstone_run,
    corpus_epoch,
    epoch,
    fresh,
    needs_published_functions,
    plan,
    sequential,
    shuffled,
    small_run,
)
from support_decoder_models import small as small_decoder
from support_decoder_models import small_draft
from support_llama_models import small as small_llama
from support_models import four_word_model
from support_refusals import refuses

AnyModel: TypeAlias = NeuralNgram | Decoder | TokenShiftDraft | Llama


def bits(parameters: Sequence[Parameter]) -> list[bytes]:
    """Return the bits of all values."""
    return [parameter.value.tobytes() for parameter in parameters]


def named_slots(run: SelectedRun[Llama]) -> list[str]:
    """Return the windows of every update as document@start."""
    documents = epoch("train").documents
    return [",".join(f"{documents[slot.document].identifier}@{slot.start}" for slot in u.batch) for u in run.updates]


class TestPublishedRun:
    """Chapter 33: five ids, one layer, eight updates."""

    @pytest.mark.parametrize("arithmetic", [pytest.param("libm/1", marks=needs_published_functions), "strict/1"])
    def test_updates_are_as_published(self, arithmetic: str) -> None:
        """Batches, rates, losses and norms to the six published decimals; every update is clipped."""
        run = small_run(arithmetic)
        found = [
            (windows, update.learning_rate, f"{update.loss:.6f}", f"{update.clip.before:.6f}")
            for windows, update in zip(named_slots(run), run.updates, strict=True)
        ]
        assert [(windows, rate, f"{loss:.6f}", f"{norm:.6f}") for windows, rate, loss, norm in UPDATES] == found
        assert [(True, MAXIMUM_NORM)] * 8 == [(update.clip.clipped, update.clip.after) for update in run.updates]

    @pytest.mark.parametrize("arithmetic", [pytest.param("libm/1", marks=needs_published_functions), "strict/1"])
    def test_checkpoints_are_as_published(self, arithmetic: str) -> None:
        """And the last one is selected, with the smallest validation loss."""
        run = small_run(arithmetic)
        found = [(point.step, f"{point.train:.6f}", f"{point.validation:.6f}") for point in run.checkpoints]
        assert [(step, f"{train:.6f}", f"{loss:.6f}") for step, train, loss in CHECKPOINTS] == found
        assert (8, run.checkpoints[-1]) == (run.selected.step, run.selected_checkpoint)

    def test_the_model_has_the_published_size(self) -> None:
        """Eleven tensors, 144 scalars; three of the tensors are gains and do not decay."""
        model, optimizer = fresh()
        assert (11, 144) == (len(model.parameters), sum(parameter.value.size for parameter in model.parameters))
        assert (8, 3) == (len(optimizer.groups.decay), len(optimizer.groups.no_decay))

    def test_it_repeats_bit_for_bit(self) -> None:
        """Nothing but its inputs goes in."""
        short = replace(plan(), rates=SteppedRate(((0.04, 2),)), checkpoints=(0, 2))
        one, other = short.run(*fresh(), STRICT), short.run(*fresh(), STRICT)
        assert (one.updates, one.checkpoints) == (other.updates, other.checkpoints)
        assert bits(one.selected_model.parameters) == bits(other.selected_model.parameters)

    def test_every_update_is_its_parts_in_order(self) -> None:
        """Forward, backward, clip, AdamW at the scheduled rate, zero: put together here, with the norm by fsum."""
        model, optimizer = fresh()
        run = small_run("strict/1")
        for update in run.updates:
            loss = model.loss(Tape(STRICT), window_batch(epoch("train"), update.batch))
            backward(loss)
            norm = math.sqrt(math.fsum(float(g) ** 2 for p in model.parameters for g in p.gradient.ravel()))
            assert math.isclose(norm, update.clip.before, rel_tol=1e-14)
            optimizer.configuration = replace(optimizer.configuration, learning_rate=update.learning_rate)
            optimizer.step(model.parameters, update.clip.transform)
            for parameter in model.parameters:
                parameter.zero_gradient()
            assert float(loss.value) == update.loss
        assert bits(model.parameters) == [values.tobytes() for values in run.final.values]

    @pytest.mark.exhaustive
    @needs_corpus
    @needs_published_functions
    def test_the_capstone_is_as_published(self) -> None:
        """Chapter 39: nine decimals of both losses before and after 32 updates; 1,188 scalars; window counts."""
        run = capstone_run("libm/1")
        assert [(step, f"{a:.9f}", f"{b:.9f}") for step, a, b in CAPSTONE_CHECKPOINTS] == [
            (point.step, f"{point.train:.9f}", f"{point.validation:.9f}") for point in run.checkpoints
        ]
        assert (32, 1188) == (run.selected.step, sum(values.size for values in run.selected.values))
        assert [1820, 463, 436] == [len(corpus_epoch(label).slots()) for label in ("train", "validation", "test")]


class Staged:
    """A model for evaluation alone, whose losses are given; the batches have twelve targets or fewer."""

    def __init__(self, *losses: float) -> None:
        self.losses = list(losses)
        self.parameters: tuple[Parameter, ...] = ()

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the next loss."""
        return tape.constant(np.array(self.losses.pop(0)))


class TestEvaluation:
    """Means over tokens, without a graph."""

    def test_batches_count_by_their_targets(self) -> None:
        """Fourteen windows by fours: 8, 8, 8 and 4 targets."""
        planned = sequential(epoch("validation"), 4)
        assert [8, 8, 8, 4] == [batch.target_count for batch in planned.batches]
        assert (8.0 + 16.0 + 24.0 + 400.0) / 28.0 == evaluate_windows(Staged(1.0, 2.0, 3.0, 100.0), planned, STRICT)

    def test_it_does_not_depend_on_the_batch_size(self) -> None:
        """But for rounding."""
        model, _ = fresh()
        whole, *others = (evaluate_windows(model, sequential(epoch("train"), size), STRICT) for size in (20, 1, 3, 7))
        np.testing.assert_allclose(others, whole, rtol=1e-14)

    def test_it_changes_nothing(self) -> None:
        """Neither values nor stored gradients."""
        model, _ = fresh()
        for parameter in model.parameters:
            parameter.gradient = np.full(parameter.shape, 0.25)
        before = bits(model.parameters)
        once = evaluate_windows(model, sequential(epoch("validation"), 4), STRICT)
        assert once == evaluate_windows(model, sequential(epoch("validation"), 4), STRICT)
        assert before == bits(model.parameters)
        assert all((parameter.gradient == 0.25).all() for parameter in model.parameters)

    def test_a_window_is_a_story_whose_every_target_counts(self) -> None:
        """Inputs 1, 2 with targets 2, 3 are the story 1, 2, 3 of width 2."""
        batch = window_batch(epoch("train"), sequential_plan(epoch("train"), 20)[0][1:2])
        assert StoryBatch(((1, 2, 3),), 2) == batch
        assert ([0, 1], [2, 3]) == batch.targets()


def validated(losses: list[float], checkpoints: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> SelectedRun[Llama]:
    """Return a run whose validation losses are given; training losses fall all the way."""
    pending = list(losses)
    falling = iter(range(100, 0, -1))

    def evaluate(model: object, planned: PlannedEpoch, arithmetic: object) -> float:
        return pending.pop(0) if planned.epoch.partition == "validation" else float(next(falling))

    monkeypatch.setattr("cai_reference.training.selection.evaluate_windows", evaluate)
    rates = SteppedRate(((0.01, checkpoints[-1]),))
    return replace(plan(), rates=rates, checkpoints=checkpoints).run(*fresh(), STRICT)


class TestSelection:
    """The earliest of the smallest validation losses."""

    @pytest.mark.parametrize(
        ("losses", "selected"),
        [([3.0, 2.0, 1.0], 2), ([3.0, 1.0, 2.0], 1), ([1.0, 2.0, 3.0], 0), ([2.0, 1.0, 1.0], 1), ([1.0, 1.0, 1.0], 0)],
    )
    def test_strictly_smaller_wins(self, losses: list[float], selected: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Step 0 takes part, equals lose to earlier ones, and training losses decide nothing."""
        run = validated(losses, (0, 1, 2), monkeypatch)
        assert selected == run.selected.step
        assert losses[selected] == run.selected_checkpoint.validation

    def test_model_and_optimiser_are_selected_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those after step 1 are those of a run that ends there."""
        run = validated([3.0, 1.0, 2.0], (0, 1, 2), monkeypatch)
        short = validated([3.0, 1.0], (0, 1), monkeypatch)
        assert bits(short.selected_model.parameters) == bits(run.selected_model.parameters)
        state, expected = run.selected_optimizer.state, short.selected_optimizer.state
        assert (1, 0.9, 0.999) == (state.step, state.beta1_power, state.beta2_power)
        for name, moments in expected.moments.items():
            assert moments.first.tobytes() == state.moments[name].first.tobytes()
            assert moments.second.tobytes() == state.moments[name].second.tobytes()
        assert (2, 2) == (run.final.step, run.final.optimizer.step)

    def test_only_checkpoints_are_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Three losses for six updates, and not one more."""
        run = validated([3.0, 1.0, 2.0], (0, 2, 6), monkeypatch)
        assert ([0, 2, 6], 6) == ([point.step for point in run.checkpoints], len(run.updates))

    def test_batches_start_again_where_they_end(self) -> None:
        """Three updates over two batches."""
        two = PlannedEpoch(epoch("train"), plan().updates.plan[:2])
        run = replace(plan(), updates=two, rates=SteppedRate(((0.01, 3),)), checkpoints=(0, 3)).run(*fresh(), STRICT)
        assert [two.plan[0], two.plan[1], two.plan[0]] == [update.batch for update in run.updates]


class TestInputs:
    """What a run is given stays as it is."""

    def test_model_and_optimiser_are_not_changed(self) -> None:
        """Values, gradients, state and rate."""
        model, optimizer = fresh()
        before = bits(model.parameters)
        short = replace(plan(), rates=SteppedRate(((0.01, 2),)), checkpoints=(0, 2))
        run = short.run(model, optimizer, STRICT)
        assert before == bits(model.parameters)
        assert not any(parameter.gradient.any() for parameter in model.parameters)
        assert (0, 0.04) == (optimizer.state.step, optimizer.configuration.learning_rate)
        assert (2, 0.04) == (run.selected_optimizer.state.step, run.selected_optimizer.configuration.learning_rate)

    def test_nor_when_the_run_fails(self) -> None:
        """Moments beyond binary64 at the first update."""
        model, optimizer = fresh()
        optimizer = AdamW(AdamWConfiguration(1e-300, epsilon=1e-320), optimizer.groups)
        before = bits(model.parameters)
        with refuses(AdamWError, "non-finite-arithmetic"):
            replace(plan(), rates=SteppedRate(((1.7e308, 1),)), checkpoints=(0, 1), maximum_norm=1e-170).run(
                model, optimizer, STRICT
            )
        assert before == bits(model.parameters)
        assert 0 == optimizer.state.step

    def test_copies_share_no_parameter(self) -> None:
        """Every kind of model; the same bits, and none moves with the other."""
        ngram, decoder, draft, llama = four_word_model(), small_decoder("hybrid"), small_draft(), small_llama("course")
        pairs: list[tuple[AnyModel, AnyModel]] = [
            (ngram, copy_of(ngram)),
            (decoder, copy_of(decoder)),
            (draft, copy_of(draft)),
            (llama, copy_of(llama)),
        ]
        for model, copy in pairs:
            before = bits(model.parameters)
            assert (type(model), before) == (type(copy), bits(copy.parameters))
            assert model.configuration == copy.configuration
            for parameter in copy.parameters:
                parameter.assign(parameter.value + 1.0)
            assert before == bits(model.parameters)

    def test_a_tied_head_stays_tied_in_a_copy(self) -> None:
        """The logits move with the table."""
        copy = copy_of(small_llama("course"))
        before = copy.forward(Tape(STRICT), [1], 1)[0].value
        table = copy.table.value.copy()
        table[7] = 0.0
        copy.parameters[0].assign(table)
        after = copy.forward(Tape(STRICT), [1], 1)[0].value
        assert [7] == np.flatnonzero(before != after).tolist()
        assert 0.0 == after[0, 0, 7]

    def test_snapshots_know_their_values(self) -> None:
        """A bit is enough to tell."""
        model, optimizer = fresh()
        snapshot = ParameterSnapshot.of(0, model.parameters, copy_of_optimizer(optimizer))
        assert snapshot.matches(model.parameters)
        model.parameters[-1].assign(np.nextafter(model.parameters[-1].value, 2.0))
        assert not snapshot.matches(model.parameters)
        assert not snapshot.matches(model.parameters[:-1])


def test_training_without_a_gain_in_sight() -> None:
    """A model without layers has one gain, which does not decay; the run is the same loop."""
    model = Llama.initialize(replace(MODEL, layers=0), SplitMix64(33))
    optimizer = AdamW(AdamWConfiguration(0.04, weight_decay=0.01), all_but_gains(model.parameters))
    run = plan().run(model, optimizer, LIBM)
    assert ("final_norm.gain",) == optimizer.groups.no_decay
    assert run.checkpoints[-1].train < run.checkpoints[0].train
    assert shuffled(epoch("train"), 2, 33) == plan().updates
