"""Gradients of whole Llama models: every parameter against central differences, and the two roles of a tied table."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.text.story_batches import StoryBatch
from support_llama_models import ADJACENT, CONFIGURATIONS, EXPONENTIAL, PLAIN, stirred

# Repeated ids, ragged stories, one cut off by the width of the batch.
BATCH = StoryBatch(((0, 4, 2, 4, 0, 3, 1), (0, 3, 3, 1), (0, 2, 3, 4, 4, 2, 3, 1)), 5)

TINY = replace(PLAIN, vocabulary=5, width=3, heads=2, key_value_heads=1, head_width=4, feed_forward=2, layers=1)
MODELS: dict[str, LlamaConfiguration] = {
    "grouped": replace(TINY, heads=4, key_value_heads=2, head_width=2),
    "multi-query, tied": replace(TINY, tied=True, norm=EXPONENTIAL),
    "multi-head, window": replace(TINY, key_value_heads=None, window=2, rope_layout=ADJACENT),
    "no layers, tied": replace(TINY, layers=0, tied=True, epsilon=0.0),
}
STEP = 2e-6
ORDINARY = "multi-query, tied"


def loss(model: Llama) -> float:
    """Return the loss of the batch."""
    return float(model.loss(Tape(FAST, recording=False), BATCH).value)


def gradients(model: Llama, arithmetic: Arithmetic, batch: StoryBatch = BATCH) -> dict[str, Array]:
    """Return the gradients of the loss of a batch, by name."""
    for parameter in model.parameters:
        parameter.zero_gradient()
    backward(model.loss(Tape(arithmetic), batch))
    return {parameter.name: parameter.gradient for parameter in model.parameters}


@pytest.mark.parametrize(
    "name", [ORDINARY, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in MODELS if name != ORDINARY)]
)
def test_every_parameter_has_the_slope_of_the_loss(name: str) -> None:
    """Element by element, within 2e-8."""
    model = stirred(MODELS[name], 3)
    expected = gradients(model, FAST)
    for parameter in model.parameters:
        value, gradient = parameter.value, expected[parameter.name]
        assert np.any(gradient)
        for index in np.ndindex(value.shape):
            quotients = []
            for sign in (1.0, -1.0):
                changed = value.copy()
                changed[index] += sign * STEP
                parameter.assign(changed)
                quotients.append(sign * loss(model))
            parameter.assign(value)
            quotient = math.fsum(quotients) / (2.0 * STEP)
            assert abs(quotient - gradient[index]) <= 2e-8 * max(1.0, abs(quotient)), (parameter.name, index)


@pytest.mark.parametrize("layers", [0, 2])
def test_a_tied_table_adds_the_gradients_of_both_its_roles(layers: int) -> None:
    """Untied, with the table's transpose as output matrix, the two gradients are apart; their sum has the same bits."""
    tied = stirred(replace(PLAIN, layers=layers, tied=True))
    untied = stirred(replace(PLAIN, layers=layers, tied=False))
    for one, other in zip(tied.parameters, untied.parameters, strict=False):
        other.assign(one.value)
    untied.parameters[-1].assign(tied.table.value.T)
    whole, apart = gradients(tied, STRICT), gradients(untied, STRICT)
    name = "token_embedding.weight"
    assert (apart["output.weight"].T + apart[name]).tobytes() == whole[name].tobytes()
    for other_name in set(whole) - {name}:
        assert whole[other_name].tobytes() == apart[other_name].tobytes()


def test_rows_of_ids_that_are_not_fed_are_trained_by_a_tied_head_alone() -> None:
    """Every id is scored, so every row of a tied table moves; of an untied one, those that were fed, 0 included."""
    for tied, expected in ((True, set(range(13))), (False, {0, 2, 3, 4})):
        table = gradients(stirred(replace(PLAIN, tied=tied)), FAST)["token_embedding.weight"]
        assert expected == {row for row, gradient in enumerate(table) if gradient.any()}


@pytest.mark.parametrize("name", ["grouped", "window", "course"])
def test_arithmetics_agree_on_gradients(name: str) -> None:
    """strict/1 and fast within 1e-12 of each tensor's norm."""
    model = stirred(CONFIGURATIONS[name])
    strict, fast = gradients(model, STRICT), gradients(model, FAST)
    for key, gradient in strict.items():
        assert np.linalg.norm(gradient - fast[key]) <= 1e-12 * np.linalg.norm(gradient) + 1e-14


def test_padding_changes_no_gradient() -> None:
    """A batch made three tokens wider than its longest story has the same bits."""
    model = stirred(CONFIGURATIONS["grouped"])
    narrow, wide = (gradients(model, STRICT, StoryBatch(BATCH.stories[:2], width)) for width in (6, 9))
    assert {name: value.tobytes() for name, value in narrow.items()} == {
        name: value.tobytes() for name, value in wide.items()
    }
