"""Greedy decoding: masks, ties, stopping, the sliding context."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.decoding.greedy import Continuation, Stop, continue_greedily, greedy_token, margin
from cai_reference.errors import CaiReferenceError, LayerError, ModelError
from cai_reference.models.neural_ngram import NeuralNgramConfiguration, NgramError
from support_models import four_word_model, model_of
from support_ngram_oracle import greedy as replica_greedy
from support_refusals import raises

LOGITS = four_word_model().next_token_logits(LIBM, [1, 2])


@pytest.mark.parametrize(
    ("masked", "expected"), [((), 1), ((1,), 0), ((0, 1), 3), ((1, 0), 3), ((0, 1, 3), 2), ({1}, 0)]
)
def test_the_masks_of_the_small_exact_vector(masked: tuple[int, ...], expected: int) -> None:
    """h, 2h, −h, 0 with h > 0."""
    assert expected == greedy_token(LOGITS, masked)


@pytest.mark.parametrize(
    ("logits", "masked", "expected"),
    [
        ([1.0, 3.0, 3.0], (), 1),
        ([1.0, 3.0, 3.0], (1,), 2),
        ([-0.0, 0.0], (), 0),
        ([0.0, -0.0], (), 0),
        ([-5.0, -5.0, -5.0], (), 0),
        ([7.0], (), 0),
    ],
)
def test_the_lowest_of_equal_ids_wins(logits: list[float], masked: tuple[int, ...], expected: int) -> None:
    """Zeros of both signs are equal."""
    assert expected == greedy_token(np.array(logits), masked)


NAN, INF = math.nan, math.inf
CHOICES: dict[str, tuple[list[float], tuple[int, ...], CaiReferenceError]] = {
    "mask before logits": ([NAN, 0.0], (5, 2), ModelError("masked-token-out-of-bounds", token_id=2, vocabulary_size=2)),
    "negative mask": ([0.0, 0.0], (-1,), ModelError("masked-token-out-of-bounds", token_id=-1, vocabulary_size=2)),
    "all masked": ([0.0, 1.0], (0, 1), ModelError("no-unmasked-token")),
    "no logits": ([], (), ModelError("no-unmasked-token")),
    "masked and not finite": ([0.0, -INF], (1,), ModelError("non-finite-logit", token_id=1, value=-INF)),
    "not finite before all masked": ([0.0, INF], (0, 1), ModelError("non-finite-logit", token_id=1, value=INF)),
    "the lowest id": ([0.0, NAN, INF], (), ModelError("non-finite-logit", token_id=1, value=NAN)),
}


@pytest.mark.parametrize(("logits", "masked", "expected"), CHOICES.values(), ids=CHOICES)
def test_no_choice_is_made_from_these(
    logits: list[float], masked: tuple[int, ...], expected: CaiReferenceError
) -> None:
    """Mask bounds, then logits in order of id, then whether anything is left."""
    with raises(expected):
        greedy_token(np.array(logits), masked)


def test_the_margin_is_the_gap_between_the_best_two() -> None:
    """Masked ids do not count; alone at the top the gap is infinite; a tie has none."""
    logits = np.array([1.0, 4.0, 2.5])
    assert (1.5, 1.5, INF) == (margin(logits), margin(logits, (1,)), margin(logits, (0, 1)))
    assert 0.0 == margin(np.array([2.0, 2.0]))


def test_a_continuation_slides_its_context() -> None:
    """Newest in, oldest out, until the limit; the replica agrees."""
    model = model_of(
        NeuralNgramConfiguration(4, 2, 1, 1),
        [[0.0], [0.0], [1.0], [2.0]],
        [[0.0], [1.0]],
        [[0.0], [1.0]],
        [[1.0]],
        [[9.0, -1.0, -1.0, 1.0]],
    )
    assert ((3, 3, 3), Stop.LIMIT) == (
        (result := continue_greedily(model, [3, 2], 3, LIBM, masked=(0,))).ids,
        result.stop,
    )
    assert 3 == len(result.margins)
    matrices = [parameter.value.tolist() for parameter in model.parameters]
    assert ([3, 3, 3], "limit") == replica_greedy(matrices, (3, 2), 3, math.exp)


def test_eos_ends_a_continuation_and_is_not_part_of_it() -> None:
    """Its margin is."""
    first = four_word_model((0.0, 1.0, 0.0, 0.0))
    result = continue_greedily(first, [1, 2], 5, STRICT)
    assert ((), Stop.EOS, "eos") == (result.ids, result.stop, str(result.stop))
    assert 1 == len(result.margins)


def test_a_limit_of_nothing_generates_nothing() -> None:
    """Not even a forward pass is made."""
    assert Continuation((), (), Stop.LIMIT) == continue_greedily(four_word_model(), [9, 9, 9], 0, STRICT)


def test_masks_hold_for_every_choice() -> None:
    """With EOS masked the next best goes on to the limit."""
    result = continue_greedily(four_word_model(), [1, 2], 4, STRICT, masked=(0, 1))
    assert (Stop.LIMIT, 4) == (result.stop, len(result.ids))
    assert not {0, 1} & set(result.ids)


def test_a_prompt_fits_the_model() -> None:
    """Masks are looked at first, before any forward pass."""
    model = four_word_model()
    with raises(ModelError("masked-token-out-of-bounds", token_id=4, vocabulary_size=4)):
        continue_greedily(model, [1], 3, STRICT, masked=(4,))
    with raises(NgramError("context-token-count-mismatch", expected=2, actual=1)):
        continue_greedily(model, [1], 3, STRICT)
    with raises(LayerError("token-id-out-of-bounds", position=1, token_id=4, vocabulary_size=4)):
        continue_greedily(model, [1, 4], 3, STRICT)
    with raises(ModelError("no-unmasked-token")):
        continue_greedily(model, [1, 2], 3, STRICT, masked=(0, 1, 2, 3))


@given(st.lists(st.floats(-4.0, 4.0), min_size=1, max_size=8), st.sets(st.integers(0, 7)))
def test_the_choice_is_the_first_maximum_of_what_is_left(values: list[float], masked: set[int]) -> None:
    """Whatever the mask, as a sort by value and id would choose."""
    inside = {token for token in masked if token < len(values)}
    left = sorted((-value, token) for token, value in enumerate(values) if token not in inside)
    if left:
        assert left[0][1] == greedy_token(np.array(values), inside)
