"""Gradients of the decoder family against central differences: operations, layers, and whole models.

Operations and layers are compared element by element. A whole model has a thousand parameters, so each of its tensors
is moved along two lines: along its own gradient, where the slope is the gradient's norm, and along a drawn direction,
where an element too many or too few shows. Both slopes are met within 1e-6 of the norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.features import channels, concatenate, logistic, permute_channels, previous, relu, tanh
from cai_reference.autograd.operations import gather, mean_of, reshape, scale
from cai_reference.autograd.probability import causal_softmax, mean_nll
from cai_reference.autograd.scan import diagonal_scan
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.projection import Dense, GroupedLinear, GroupedStack
from cai_reference.layers.rope import Rope, rotate
from cai_reference.layers.slab_feed_forward import FeedForward
from cai_reference.layers.token_shift import TokenShift
from cai_reference.models.decoder import Decoder
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch
from support_decoder_conversion import Model
from support_decoder_models import CONFIGURATIONS, small, small_draft, stir
from support_differences import Build, check_gradients, drawn

Shapes = tuple[tuple[int, ...], ...]

OPERATIONS: dict[str, tuple[Build, Shapes]] = {
    "scale": (lambda tape, p: scale(tape, p[0], -2.5), ((3,),)),
    "tanh": (lambda tape, p: tanh(tape, p[0]), ((2, 3),)),
    "logistic": (lambda tape, p: logistic(tape, p[0]), ((5,),)),
    "relu": (lambda tape, p: relu(tape, p[0]), ((7,),)),
    "channels": (lambda tape, p: channels(tape, p[0], 1, 3), ((2, 4),)),
    "channels that overlap": (
        lambda tape, p: concatenate(tape, [channels(tape, p[0], 0, 3), channels(tape, p[0], 1, 4)]),
        ((2, 4),),
    ),
    "concatenate": (lambda tape, p: concatenate(tape, p), ((2, 1), (2, 3), (2, 2))),
    "concatenate with itself": (lambda tape, p: concatenate(tape, [p[0], p[1], p[0]]), ((2, 2), (2, 1))),
    "permute": (lambda tape, p: permute_channels(tape, p[0], [2, 0, 3, 1]), ((2, 4),)),
    "previous": (lambda tape, p: previous(tape, p[0]), ((2, 3, 2),)),
    "mean of values": (lambda tape, p: mean_of(tape, [p[0], p[1], p[0]]), ((2,), (2,))),
    "gather with a dead row": (lambda tape, p: gather(tape, p[0], [2, 0, 2, 1], (2, 2), zero_index=0), ((3, 2),)),
    "causal softmax in a window": (lambda tape, p: causal_softmax(tape, p[0], window=2), ((2, 4, 4),)),
    "rope": (lambda tape, p: rotate(tape, p[0], 3, Rope(50.0)), ((2, 3, 6),)),
    "diagonal scan": (lambda tape, p: diagonal_scan(tape, *p), ((2, 4, 3), *(((3,),) * 4))),
}

D, LATENT, ROPE = 8, 3, 4
MATRIX = ((D, D), (D,))


def attention(tape: Tape, p: list[Parameter], window: int | None) -> Variable:
    """Run two heads of width 4 from position 5."""
    return Attention(Dense(p[1], p[2]), Dense(p[3], p[4]), 2, window, 50.0)(tape, p[0], 5)


def latent_attention(tape: Tape, p: list[Parameter]) -> Variable:
    """Run two heads with a shared rotary key from position 5."""
    query, latent, key, value, rope_query, rope_key, output = (Dense(p[at], p[at + 1]) for at in range(1, 15, 2))
    return LatentAttention(query, latent, key, value, rope_query, rope_key, output, 2, 50.0)(tape, p[0], 5)


LAYERS: dict[str, tuple[Build, Shapes]] = {
    "dynamic tanh": (lambda tape, p: DynamicTanh(*p[1:])(tape, p[0]), ((2, 2, 3), (3,), (3,), (1,))),
    "token shift": (lambda tape, p: TokenShift(p[1])(tape, p[0]), ((2, 3, 2), (2,))),
    "grouped": (lambda tape, p: GroupedLinear(p[1], p[2])(tape, p[0]), ((2, 2, 6), (2, 3, 2), (4,))),
    "grouped stack": (
        lambda tape, p: GroupedStack(GroupedLinear(p[1], p[2]), GroupedLinear(p[3], p[4]), True)(tape, p[0]),
        ((3, 6), (2, 3, 2), (4,), (2, 2, 2), (4,)),
    ),
    "grouped stack that widens": (
        lambda tape, p: GroupedStack(GroupedLinear(p[1], p[2]), None, True)(tape, p[0]),
        ((3, 4), (2, 2, 3), (6,)),
    ),
    "feed-forward": (
        lambda tape, p: FeedForward(Dense(p[1], p[2]), Dense(p[3], p[4]))(tape, p[0]),
        ((2, 3), (3, 8), (8,), (4, 3), (3,)),
    ),
    "attention": (lambda tape, p: attention(tape, p, None), ((2, 4, D), (D, 3 * D), (3 * D,), *MATRIX)),
    "attention in a window": (lambda tape, p: attention(tape, p, 2), ((1, 5, D), (D, 3 * D), (3 * D,), *MATRIX)),
    "latent attention": (
        latent_attention,
        (
            (1, 4, D),
            *MATRIX,
            *((D, LATENT), (LATENT,)),
            *((LATENT, D), (D,)),
            *((LATENT, D), (D,)),
            *((D, 2 * ROPE), (2 * ROPE,)),
            *((D, ROPE), (ROPE,)),
            *MATRIX,
        ),
    ),
    "diagonal ssm": (
        lambda tape, p: DiagonalSsm(Dense(p[1], p[2]), p[3], p[4], p[5], p[6], Dense(p[7], p[8]))(tape, p[0]),
        ((2, 4, 3), (3, 3), *(((3,),) * 5), (3, 3), (3,)),
    ),
}


@pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize(("build", "shapes"), OPERATIONS.values(), ids=OPERATIONS)
def test_operations_have_the_slopes_of_their_values(build: Build, shapes: Shapes, arithmetic: Arithmetic) -> None:
    """Every element of every operand, what is used twice included."""
    check_gradients(build, [drawn(shape, 7 + number) for number, shape in enumerate(shapes)], arithmetic)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        # The one in a window has the same operations and a mask.
        pytest.param(*layer, id=name, marks=pytest.mark.exhaustive if name == "attention" else ())
        for name, layer in LAYERS.items()
    ],
)
def test_layers_have_the_slopes_of_their_values(build: Build, shapes: Shapes) -> None:
    """Every element of the input and of every parameter, over batches and heads."""
    check_gradients(build, [drawn(shape, 40 + number, 0.8) for number, shape in enumerate(shapes)], FAST)


# Whole models: repeated ids, the zero id inside a story, ragged stories, one cut off by the width of the batch.

BATCH = StoryBatch(((0, 4, 9, 4, 0, 7, 4, 1), (0, 7, 3, 1), (0, 2, 3, 5, 8, 10, 6, 3, 2, 1)), 7)
WHOLE = [
    "local-global",
    "ssm",
    "hybrid",
    "parallel",
    "parallel-hybrid",
    "futures",
    "grouped",
    "grouped-futures",
    "draft",
]
SEEN = {2, 3, 4, 5, 6, 7, 8, 9, 10}
STEP = 2e-5


def model_named(name: str) -> Model:
    """Return a small model."""
    return small_draft() if name == "draft" else small(name)


def slope(model: Model, parameter: Parameter, direction: Array) -> float:
    """Return the central difference of the loss along a direction of length 1."""
    tape, value, quotients = Tape(FAST, recording=False), parameter.value, []
    for sign in (1.0, -1.0):
        parameter.assign(value + (sign * STEP) * direction)
        quotients.append(sign * float(model.loss(tape, BATCH).value))
    parameter.assign(value)
    return math.fsum(quotients) / (2.0 * STEP)


def lines(gradient: Array, seed: int) -> list[Array]:
    """Return the direction of the gradient, and one in which every element takes part; both of length 1."""
    moved = drawn(gradient.shape, seed, 1.0)
    moved = moved + np.where(moved < 0.0, -0.5, 0.5)
    return [gradient / np.linalg.norm(gradient), moved / np.linalg.norm(moved)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("local-global", "draft") else pytest.mark.exhaustive) for name in WHOLE],
)
def test_whole_models_have_the_slopes_of_their_loss(name: str) -> None:
    """Every tensor but the bias of content keys, which adds the same to all scores of a query and changes nothing."""
    model = model_named(name)
    backward(model.loss(Tape(FAST), BATCH))
    zero = []
    for number, parameter in enumerate(model.parameters):
        gradient = parameter.gradient
        norm = float(np.linalg.norm(gradient))
        if norm < 1e-13:
            zero.append(parameter.name)
            assert abs(slope(model, parameter, lines(np.ones(gradient.shape), number)[1])) < 1e-9
            continue
        # A drawn direction sees about 1/√n of the norm, so it is held to that part of the bound.
        for direction, share in zip(lines(gradient, number), (1.0, math.sqrt(gradient.size)), strict=True):
            expected = float(np.sum(gradient * direction))
            assert abs(slope(model, parameter, direction) - expected) <= 1e-6 * norm / share, parameter.name
    assert zero == [parameter.name for parameter in model.parameters if parameter.name.endswith(".mixer.key.bias")]


@pytest.mark.parametrize("name", [*CONFIGURATIONS, "draft"])
def test_rows_of_ids_that_are_not_fed_have_no_gradient(name: str) -> None:
    """Id 0, which is fed and embeds to zero; EOS, which is only a target; and ids that do not occur."""
    model = model_named(name)
    backward(model.loss(Tape(FAST), BATCH))
    assert SEEN == {row for row, gradient in enumerate(model.table.gradient) if gradient.any()}


def test_a_window_of_one_trains_neither_queries_nor_keys() -> None:
    """The only visible key weighs 1 whatever its score; the last third of the slab, the values, is trained."""
    model = small("local")
    backward(model.loss(Tape(STRICT), BATCH))
    slab = next(parameter for parameter in model.parameters if parameter.name == "blocks.0.mixer.slab.weight")
    assert not slab.gradient[:, :16].any()
    assert slab.gradient[:, 16:].all()


def gradients(model: Model, arithmetic: Arithmetic, batch: StoryBatch) -> list[Array]:
    """Return the gradients of the loss of a batch, in registry order."""
    for parameter in model.parameters:
        parameter.zero_gradient()
    backward(model.loss(Tape(arithmetic), batch))
    return [parameter.gradient for parameter in model.parameters]


@pytest.mark.parametrize("name", ["hybrid", "grouped", "futures", "draft"])
def test_padding_changes_no_gradient(name: str) -> None:
    """A batch made three tokens wider than its longest story has the same bits."""
    model = model_named(name)
    stories = BATCH.stories[:2]
    narrow, wide = (gradients(model, STRICT, StoryBatch(stories, width)) for width in (7, 10))
    assert [gradient.tobytes() for gradient in narrow] == [gradient.tobytes() for gradient in wide]


@pytest.mark.parametrize("name", ["hybrid", "grouped-futures"])
def test_arithmetics_agree_on_gradients(name: str) -> None:
    """strict/1 and fast within 1e-12 of each tensor's norm; noise alone where the gradient is zero."""
    model = model_named(name)
    for strict, fast in zip(gradients(model, STRICT, BATCH), gradients(model, FAST, BATCH), strict=True):
        assert np.linalg.norm(strict - fast) <= 1e-12 * np.linalg.norm(strict) + 1e-14


def test_the_gradient_of_a_mean_over_heads_is_the_mean_of_gradients() -> None:
    """Two heads of a model, each taken alone, give halves of what both give in the trunk."""
    sizes = replace(CONFIGURATIONS["futures"], futures=2)
    both = Decoder.initialize(sizes, SplitMix64(6))
    stir(both.parameters, 6)
    trunk = gradients(both, FAST, BATCH)[0]
    halves: list[Array] = []
    for future in range(2):
        tape = Tape(FAST)
        both.table.zero_gradient()
        backward(alone(both, tape, future))
        halves.append(both.table.gradient)
    assert np.allclose(trunk, (halves[0] + halves[1]) / 2.0, rtol=1e-12, atol=1e-15)


def alone(model: Decoder, tape: Tape, future: int) -> Variable:
    """Return the mean cross-entropy of one head over its real targets."""
    logits: Sequence[Variable] = model.forward(tape, BATCH.flat_ids, BATCH.rows)
    places, targets = BATCH.targets(future)
    rows = reshape(tape, logits[future], (BATCH.rows * BATCH.width, model.configuration.vocabulary))
    return mean_nll(tape, gather(tape, rows, places, (len(places),)), targets)
