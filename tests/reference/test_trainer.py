"""Evaluation weights and the training loop, on corpora of a few tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Tape
from cai_reference.layers.swiglu import SwiGluError
from cai_reference.models.neural_ngram import NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Window, Windowing, sequential_plan
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, Moments, ParameterGroups
from cai_reference.training.errors import AdamWError
from cai_reference.training.trainer import TrainingRun, TrainingStep, evaluate
from support_models import four_word_model
from support_ngram_oracle import AdamW as ReplicaAdamW
from support_ngram_oracle import evaluate as replica_evaluate
from support_ngram_oracle import initial_parameters, loss_and_gradients
from support_refusals import raises, refuses

SIZES = NeuralNgramConfiguration(5, 2, 2, 3)
RATES = AdamWConfiguration(0.01, weight_decay=0.01)


def epoch_of(label: str, *documents: tuple[int, ...]) -> Epoch:
    """Return an epoch of given token ids."""
    encoded = tuple(EncodedDocument(f"d{number}", label, tokens) for number, tokens in enumerate(documents))
    return Epoch(label, encoded, Windowing(2))


TRAIN = epoch_of("train", (0, 2, 3, 4, 1), (0, 4, 4, 1))
VALIDATION = epoch_of("validation", (0, 3, 2, 1))
RUN = TrainingRun(
    TRAIN,
    VALIDATION,
    plan=sequential_plan(TRAIN, 2),
    train_evaluation=sequential_plan(TRAIN, 3),
    validation_evaluation=sequential_plan(VALIDATION, 3),
    steps=7,
    evaluate_at=frozenset({0, 7}),
)


def fresh() -> tuple[NeuralNgram, AdamW]:
    """Return a model and its optimiser before any step."""
    model = NeuralNgram.initialize(SIZES, SplitMix64(11))
    names = tuple(parameter.name for parameter in model.parameters)
    return model, AdamW(RATES, ParameterGroups(names))


def trained(run: TrainingRun = RUN) -> list[TrainingStep]:
    """Return all steps of a run from its start."""
    model, optimizer = fresh()
    return list(run.run(model, optimizer, LIBM))


def scored(epoch: Epoch) -> list[tuple[tuple[int, ...], int]]:
    """Return (context, target) of every window, as the replica takes them."""
    windows = [epoch.window(slot) for slot in epoch.slots()]
    return [(window.inputs, window.targets[-1]) for window in windows]


def test_batches_count_by_their_rows() -> None:
    """(mean of two · 2 + mean of one · 1) / 3, which is not the mean of the two means."""
    model = four_word_model()
    epoch = epoch_of("test", (1, 2, 3, 0, 2))
    plan = sequential_plan(epoch, 2)
    tape = Tape(STRICT, recording=False)
    two, one = (float(model.loss(tape, [epoch.window(slot) for slot in batch]).value) for batch in plan)
    assert (0.0 + two * 2.0 + one * 1.0) / 3.0 == evaluate(model, epoch, plan, STRICT)
    assert (two + one) / 2.0 != evaluate(model, epoch, plan, STRICT)


def test_evaluation_changes_nothing() -> None:
    """No gradient is stored."""
    model, _ = fresh()
    evaluate(model, TRAIN, RUN.train_evaluation, STRICT)
    assert not any(parameter.gradient.any() for parameter in model.parameters)


def test_step_zero_is_before_any_update() -> None:
    """Initial parameters, zero moments, no batch loss, no gradients."""
    model, _ = fresh()
    (only,) = trained(replace(RUN, steps=0))
    assert (0, None, ()) == (only.step, only.batch_loss, only.gradients)
    assert [p.value.tobytes() for p in model.parameters] == [values.tobytes() for values in only.parameters]
    assert (10, False) == (len(only.moments), any(moment.any() for moment in only.moments))
    assert only.evaluation is not None


def as_bytes(arrays: tuple[Array, ...]) -> list[bytes]:
    """Return the bits of arrays."""
    return [array.tobytes() for array in arrays]


def test_the_plain_replica_trains_alike() -> None:
    """Seven steps over four batches, wrapping around: losses, gradients, weights and moments bit for bit."""
    matrices, optimizer = initial_parameters(11, SIZES.shapes()), ReplicaAdamW()
    windows, steps = scored(TRAIN), trained()
    batches = [windows[start : start + 2] for start in range(0, len(windows), 2)]
    assert 8 == len(steps)
    for step in steps[1:]:
        loss, gradients = loss_and_gradients(matrices, batches[(step.step - 1) % len(batches)], math.exp, math.log1p)
        matrices = optimizer.step(matrices, gradients)
        assert loss == step.batch_loss
        assert [np.array(gradient).tobytes() for gradient in gradients] == as_bytes(step.gradients)
        assert [np.array(matrix).tobytes() for matrix in matrices] == as_bytes(step.parameters)
        moments = [*optimizer.first, *optimizer.second]
        assert [np.array(moment).tobytes() for moment in moments] == as_bytes(step.moments)
    final = steps[-1].evaluation
    assert final is not None
    assert replica_evaluate(matrices, windows, 3, math.exp, math.log1p) == final.train
    assert replica_evaluate(matrices, scored(VALIDATION), 3, math.exp, math.log1p) == final.validation


def test_losses_are_computed_only_where_asked() -> None:
    """Steps 0 and 7; and training is not disturbed by evaluating."""
    steps = trained()
    assert [True, *[False] * 6, True] == [step.evaluation is not None for step in steps]
    never = trained(replace(RUN, evaluate_at=frozenset()))
    assert as_bytes(steps[-1].parameters) == as_bytes(never[-1].parameters)


def test_a_run_repeats_bit_for_bit() -> None:
    """Nothing but its inputs goes into it."""
    for one, other in zip(trained(), trained(), strict=True):
        assert as_bytes(one.parameters) == as_bytes(other.parameters)
        assert (one.batch_loss, one.evaluation) == (other.batch_loss, other.evaluation)


def test_parameters_stay_the_same_objects_with_cleared_gradients() -> None:
    """The loop assigns values; it replaces no node, and leaves every gradient zero."""
    model, optimizer = fresh()
    before = model.parameters
    steps = list(RUN.run(model, optimizer, LIBM))
    assert all(one is other for one, other in zip(before, model.parameters, strict=True))
    assert not any(parameter.gradient.any() for parameter in model.parameters)
    assert 7 == optimizer.state.step
    assert as_bytes(steps[-1].parameters) == as_bytes(tuple(parameter.value for parameter in model.parameters))


def test_earlier_steps_keep_their_values() -> None:
    """What was yielded is not overwritten by later steps."""
    model, optimizer = fresh()
    run = RUN.run(model, optimizer, LIBM)
    first = next(run)
    kept = as_bytes(first.parameters)
    list(run)
    assert kept == as_bytes(first.parameters)


def test_an_update_that_fails_is_not_made() -> None:
    """Weights and state are those of the step before."""
    model, optimizer = fresh()
    huge = {p.name: Moments(np.full(p.shape, 1e308), np.zeros(p.shape)) for p in model.parameters}
    optimizer.state = restored = AdamWState(moments=huge)
    run = RUN.run(model, optimizer, LIBM)
    before = as_bytes(next(run).parameters)
    with raises(
        AdamWError(
            "non-finite-arithmetic",
            name="ngram.embedding.weight",
            index=0,
            stage="bias-corrected first moment",
            value=math.inf,
        )
    ):
        next(run)
    assert before == as_bytes(tuple(parameter.value for parameter in model.parameters))
    assert restored is optimizer.state


def test_a_forward_pass_that_fails_ends_the_run() -> None:
    """A rate beyond reason makes weights whose products overflow; they stay, as the last step made them."""
    model, _ = fresh()
    names = tuple(parameter.name for parameter in model.parameters)
    optimizer = AdamW(AdamWConfiguration(1e308), ParameterGroups(names))
    run = replace(RUN, evaluate_at=frozenset()).run(model, optimizer, LIBM)
    next(run)
    after = as_bytes(next(run).parameters)
    with refuses(SwiGluError, "projection-failed"):
        next(run)
    assert after == as_bytes(tuple(parameter.value for parameter in model.parameters))


def test_the_last_target_is_trained() -> None:
    """A run sees windows whose inner targets are ignored: the same tokens without them give the same bits."""
    model, _ = fresh()
    window = TRAIN.window(TRAIN.slots()[0])
    tape = Tape(STRICT)
    assert model.loss(tape, [window]).value == model.loss(tape, [Window(window.inputs, window.targets[-1:])]).value
