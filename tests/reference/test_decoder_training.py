"""Training decoders and drafts on a handful of stories: the loop, its clip, its decay, its losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.errors import AutogradError, CaiReferenceError, ModelError
from cai_reference.models.decoder import Decoder
from cai_reference.models.registry import decayed_names
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches, story_batches
from cai_reference.training.adamw import AdamW, AdamWConfiguration, GradientScale, ParameterGroups
from cai_reference.training.decoder_training import DecoderStep, DecoderTraining, evaluate_stories, gradient_norm
from support_decoder_conversion import Model, described
from support_decoder_elementary import strict_elementary
from support_decoder_models import CONFIGURATIONS, small
from support_decoder_oracle import logits, row_loss
from support_refusals import raises, refuses

STORIES = [(0, 2, 3, 4, 5, 1), (0, 6, 3, 4, 7, 8, 1), (0, 2, 9, 1), (0, 6, 3, 10, 5, 1), (0, 2, 3, 4, 7, 8, 5, 1)]
VALIDATION = [(0, 6, 3, 4, 5, 1), (0, 2, 3, 10, 5, 1)]
RATES = AdamWConfiguration(0.01, beta2=0.99, epsilon=1e-6, weight_decay=0.1)
CONTEXT = 6


def fresh(name: str) -> Model:
    """Return a model as it starts."""
    if name == "draft":
        return TokenShiftDraft.initialize(DraftConfiguration(11, CONTEXT, 6, 10), SplitMix64(4))
    sizes = replace(CONFIGURATIONS[name], context=CONTEXT)
    return Decoder.initialize(sizes, SplitMix64(4))


def optimizer_for(model: Model, rates: AdamWConfiguration = RATES) -> AdamW:
    """Return an optimiser that decays matrices only."""
    decayed = decayed_names(model.parameters)
    rest = tuple(parameter.name for parameter in model.parameters if parameter.name not in decayed)
    return AdamW(rates, ParameterGroups(decayed, rest))


def training(steps: int, clip: float | None = None, evaluate_at: Sequence[int] = ()) -> DecoderTraining:
    """Return a plan over the stories, two a batch."""
    return DecoderTraining(
        shuffled_story_batches(STORIES, 2, CONTEXT, SplitMix64(12), steps),
        story_batches(STORIES, 3, CONTEXT),
        story_batches(VALIDATION, 3, CONTEXT),
        frozenset(evaluate_at),
        clip,
    )


def values(parameters: Sequence[Parameter]) -> list[bytes]:
    """Return the bits of all parameters."""
    return [parameter.value.tobytes() for parameter in parameters]


def run(model: Model, plan: DecoderTraining, arithmetic: Arithmetic = STRICT) -> list[DecoderStep]:
    """Train to the end."""
    return list(plan.run(model, optimizer_for(model), arithmetic))


@pytest.mark.parametrize(
    "name", ["draft", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("hybrid", "grouped", "futures"))]
)
def test_the_loss_falls(name: str) -> None:
    """Forty steps over five stories take a quarter off the training loss, and something off unseen stories."""
    model = fresh(name)
    steps = run(model, training(40, clip=1.0, evaluate_at=(0, 40)), FAST)
    first, last = steps[0], steps[-1]
    assert (0, 40, 41) == (first.step, last.step, len(steps))
    assert first.train is not None and last.train is not None
    assert first.validation is not None and last.validation is not None
    assert last.train < 0.75 * first.train
    assert last.validation < 0.9 * first.validation


def test_step_zero_is_before_any_update() -> None:
    """No batch loss, no norm; losses of the initial model; nothing is changed."""
    model = fresh("hybrid")
    before = values(model.parameters)
    first = next(training(1, evaluate_at=(0,)).run(model, optimizer_for(model), STRICT))
    train = evaluate_stories(model, story_batches(STORIES, 3, CONTEXT), STRICT, "train")
    validation = evaluate_stories(model, story_batches(VALIDATION, 3, CONTEXT), STRICT, "validation")
    assert DecoderStep(0, None, None, train, validation) == first
    assert before == values(model.parameters)


def test_losses_are_computed_only_where_asked() -> None:
    """And computing them does not disturb training."""
    often, never = fresh("hybrid"), fresh("hybrid")
    steps = run(often, training(3, evaluate_at=(0, 2)))
    assert [True, False, True, False] == [step.train is not None for step in steps]
    assert [None, None] == [steps[1].validation, steps[3].validation]
    run(never, training(3))
    assert values(often.parameters) == values(never.parameters)


def by_hand(model: Model, plan: DecoderTraining, clip: float) -> list[tuple[float, float]]:
    """Train with the same parts put together here; return batch losses and norms."""
    optimizer, seen = optimizer_for(model), []
    for batch in plan.batches:
        loss = model.loss(Tape(STRICT), batch)
        backward(loss)
        squares = [float(g * g) for parameter in model.parameters for g in parameter.gradient.ravel()]
        norm = math.sqrt(math.fsum(squares))
        factor = clip / gradient_norm(model.parameters, STRICT) if norm > clip else None
        optimizer.step(model.parameters, None if factor is None else GradientScale(factor))
        for parameter in model.parameters:
            parameter.zero_gradient()
        seen.append((float(loss.value), norm))
    return seen


@pytest.mark.parametrize("clip", [pytest.param(1e9, marks=pytest.mark.exhaustive), 0.5])
def test_the_clip_scales_all_gradients_by_one_factor(clip: float) -> None:
    """Above the limit g · (limit / norm) for every tensor, the norm taken over all of them; below it, g."""
    model, again = fresh("grouped"), fresh("grouped")
    plan = training(4, clip=clip)
    steps, expected = run(model, plan)[1:], by_hand(again, plan, clip)
    assert [loss for loss, _ in expected] == [step.batch_loss for step in steps]
    assert [pytest.approx(norm, rel=1e-12) for _, norm in expected] == [step.gradient_norm for step in steps]
    assert values(again.parameters) == values(model.parameters)
    assert {clip < 1.0} == {norm > clip for _, norm in expected}


def test_a_clip_that_is_never_reached_is_none() -> None:
    """The same bits without a limit; other bits with one that is reached."""
    models = [fresh("hybrid") for _ in range(3)]
    for model, clip in zip(models, (None, 1e9, 0.1), strict=True):
        run(model, training(3, clip=clip))
    free, far, near = (values(model.parameters) for model in models)
    assert free == far
    assert free != near


def test_the_norm_is_taken_in_registry_order() -> None:
    """Ascending within a parameter, the parameters' sums one after the other, one root at the end."""
    parameters = [Parameter(name, np.zeros(shape)) for name, shape in (("a", (2, 2)), ("b", (1,)), ("c", (2,)))]
    for parameter, gradient in zip(parameters, ([[1e8, 1.0], [1.0, 1.0]], [3.0], [-1.0, 2.0]), strict=True):
        parameter.gradient = np.array(gradient)
    assert math.sqrt((((1e16 + 1.0) + 1.0) + 1.0) + 9.0 + 5.0) == gradient_norm(parameters, STRICT)
    assert 5.0 == gradient_norm([leaf(3.0), leaf(-4.0)], FAST)


def leaf(gradient: float) -> Parameter:
    """Return a parameter with one gradient."""
    parameter = Parameter("p", np.zeros(1))
    parameter.gradient = np.array([gradient])
    return parameter


@pytest.mark.parametrize("name", ["hybrid", "grouped", "draft"])
def test_matrices_alone_decay(name: str) -> None:
    """Where the gradient is zero, a matrix shrinks by 1 − η·λ and everything else stays as it is."""
    model = fresh(name)
    before = {parameter.name: parameter.value for parameter in model.parameters}
    optimizer_for(model).step(model.parameters)
    for parameter in model.parameters:
        old = before[parameter.name]
        kept = old if parameter.value.ndim < 2 else (old - 0.0) - (0.01 * 0.1) * old
        assert kept.tobytes() == parameter.value.tobytes(), parameter.name


def test_an_evaluation_counts_targets_not_batches() -> None:
    """Batches of unequal sizes count by the real targets of the first head; the oracle's losses, row by row."""
    model = small("hybrid")
    stories = [*STORIES, *VALIDATION]
    losses = []
    for story in stories:
        (rows,) = logits(described(model), story[:CONTEXT], strict_elementary())
        pairs = zip(rows, story[1 : CONTEXT + 1], strict=False)
        losses += [row_loss(row, target, strict_elementary()) for row, target in pairs]
    expected = math.fsum(losses) / len(losses)
    for size in (1, 2, 3, 7):
        actual = evaluate_stories(model, story_batches(stories, size, CONTEXT), STRICT, "train")
        assert pytest.approx(expected, rel=1e-13) == actual


def test_training_leaves_objects_and_clears_gradients() -> None:
    """Values are assigned to the parameters that are there; every gradient ends as zero."""
    model = fresh("futures")
    before = model.parameters
    run(model, training(2))
    assert all(one is other for one, other in zip(before, model.parameters, strict=True))
    assert not any(parameter.gradient.any() for parameter in model.parameters)


def test_dead_rows_only_decay() -> None:
    """Rows of ids that are never fed, the zero id's and EOS's among them, shrink and move no other way."""
    model = fresh("hybrid")
    old = model.table.value
    run(model, training(2))
    shrunk = old
    for _ in range(2):
        shrunk = (shrunk - 0.0) - (0.01 * 0.1) * shrunk
    for token in (0, 11, 12):
        assert shrunk[token].tobytes() == model.table.value[token].tobytes()


def test_a_run_repeats_bit_for_bit() -> None:
    """Nothing but its inputs goes into it."""
    one, other = fresh("grouped"), fresh("grouped")
    assert run(one, training(3, 0.5, (0, 3))) == run(other, training(3, 0.5, (0, 3)))
    assert values(one.parameters) == values(other.parameters)


# What cannot be trained.


@pytest.mark.parametrize("name", ["hybrid", "futures", "draft"])
def test_batches_without_targets(name: str) -> None:
    """A story of one token predicts nothing; for a third head a story of three predicts nothing either."""
    model, tape = fresh(name), Tape(STRICT)
    with raises(ModelError("empty-sequence")):
        model.loss(tape, story_batches([(0,)], 1, CONTEXT)[0])
    with raises(ModelError("no-targets")):
        model.loss(tape, StoryBatch(((0,),), 2))
    if name == "futures":
        with raises(ModelError("no-targets")):
            model.loss(tape, StoryBatch(((0, 5, 1),), 2))


@pytest.mark.parametrize("name", ["hybrid", "draft"])
def test_sequences_that_do_not_fit(name: str) -> None:
    """Empty rows, no rows, rows beyond the context."""
    model, tape = fresh(name), Tape(STRICT)
    for ids, batch in (([], 1), ([], 0), ([1, 2], 3)):
        with raises(ModelError("empty-sequence")):
            model.forward(tape, ids, batch)
    with raises(ModelError("sequence-too-long", length=7, context=6)):
        model.forward(tape, [2] * 14, 2)


def test_a_step_that_overflows_is_not_taken() -> None:
    """In the forward pass, in the optimiser, and where the norm itself is infinite: weights stay."""
    model = fresh("hybrid")
    healthy = next(parameter for parameter in model.parameters if "hidden" in parameter.name)
    old = healthy.value
    healthy.assign(np.full(old.shape, 1.5e308))
    before = values(model.parameters)
    with pytest.raises(AutogradError):
        run(model, training(1))
    assert before == values(model.parameters)
    healthy.assign(old)
    before = values(model.parameters)
    for clip, error in ((None, "non-finite-arithmetic"), (1.0, "invalid-gradient-scale")):
        model.parameters[-1].gradient = np.full(model.parameters[-1].shape, 1e200)
        with refuses(CaiReferenceError, error):
            run(model, training(1, clip))
        assert before == values(model.parameters)
