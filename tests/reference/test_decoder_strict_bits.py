"""The batch path against the slow oracle, bit for bit in strict/1: logits and losses of every mixer and wiring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.arithmetic.instances import LIBM as C_LIBRARY
from cai_reference.autograd import Tape
from cai_reference.models.decoder import Decoder
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch
from support_decoder_conversion import Model, described, model_of
from support_decoder_elementary import LIBM, strict_elementary
from support_decoder_models import CONFIGURATIONS, DRAFT, sequence, small, small_draft, stir
from support_decoder_oracle import logits, mean_head_loss

NAMES = list(CONFIGURATIONS)
TOKENS = 14


def batch_path(model: Model, ids: list[int], batch: int = 1, start: int = 0, arithmetic: Arithmetic = STRICT) -> Array:
    """Return the logits [heads, batch, tokens, vocabulary]."""
    tape = Tape(arithmetic, recording=False)
    if isinstance(model, Decoder):
        return np.array([head.value for head in model.forward(tape, ids, batch, start)])
    return np.array([head.value for head in model.forward(tape, ids, batch)])


def oracle(model: Model, ids: list[int], start: int = 0) -> Array:
    """Return the logits [heads, tokens, vocabulary] of the slow oracle."""
    return np.array(logits(described(model), ids, strict_elementary(), start))


@pytest.mark.parametrize("start", [3000, *(pytest.param(start, marks=pytest.mark.exhaustive) for start in (0, 5))])
@pytest.mark.parametrize("name", NAMES)
def test_logits_have_the_bits_of_the_oracle(name: str, start: int) -> None:
    """Every head and position, windows filled several times, wherever the sequence starts."""
    model = small(name)
    ids = sequence(model.configuration.vocabulary, TOKENS)
    actual = batch_path(model, ids, start=start)[:, 0]
    assert oracle(model, ids, start).tobytes() == actual.tobytes()
    assert np.std(actual) > 1.0


def test_the_draft_has_the_bits_of_the_oracle() -> None:
    """Token shift, ReLU and two projections."""
    ids = sequence(DRAFT.vocabulary, TOKENS)
    assert oracle(small_draft(), ids).tobytes() == batch_path(small_draft(), ids)[:, 0].tobytes()


@pytest.mark.parametrize("name", ["hybrid", "grouped", "parallel"])
def test_the_c_library_serves_as_well(name: str) -> None:
    """With exp, tanh, sin and cos of libm/1 the order of operations is the same."""
    model = small(name)
    ids = sequence(model.configuration.vocabulary, TOKENS)
    expected = np.array(logits(described(model), ids, LIBM))
    assert expected.tobytes() == batch_path(model, ids, arithmetic=C_LIBRARY)[:, 0].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_fast_differs_by_rounding_alone(name: str) -> None:
    """BLAS and NumPy's functions, within 1e-12 of the largest logit."""
    model = small(name)
    ids = sequence(model.configuration.vocabulary, TOKENS)
    strict, fast = (batch_path(model, ids, arithmetic=arithmetic) for arithmetic in (STRICT, FAST))
    assert np.max(np.abs(strict - fast)) <= 1e-12 * np.max(np.abs(strict))


@pytest.mark.parametrize("name", ["hybrid", "grouped", "local-global"])
def test_neighbours_and_later_tokens_change_nothing(name: str) -> None:
    """A row alone, the same row in a batch, and its prefixes have the same bits."""
    model = small(name)
    vocabulary = model.configuration.vocabulary
    one, other = sequence(vocabulary, TOKENS), sequence(vocabulary, TOKENS, seed=8)
    together = batch_path(model, one + other, batch=2)
    for row, ids in enumerate((one, other)):
        assert batch_path(model, ids)[:, 0].tobytes() == together[:, row].tobytes()
    for length in (1, 2, 7):
        assert batch_path(model, one[:length])[:, 0].tobytes() == together[:, 0, :length].tobytes()


@pytest.mark.parametrize("name", ["hybrid", "futures", "grouped-futures"])
def test_losses_have_the_bits_of_the_oracle(name: str) -> None:
    """Ragged stories, one longer than the batch is wide; the mean over heads of means over real targets."""
    model = small(name)
    stories = ((0, 4, 9, 4, 4, 1), (0, 7, 1), (0, 2, 3, 5, 8, 10, 6, 3, 1), (0, 5, 5, 1))
    batch = StoryBatch(stories, 6)
    rows = [logits(described(model), list(story[:6]), strict_elementary()) for story in stories]
    heads = [
        [
            (head_rows[head][position], story[position + 1 + head])
            for story, head_rows in zip(stories, rows, strict=True)
            for position in range(min(6, len(story) - 1 - head))
        ]
        for head in range(model.configuration.futures)
    ]
    expected = mean_head_loss(heads, strict_elementary())
    assert expected == float(model.loss(Tape(STRICT, recording=False), batch).value)


def test_the_draft_loss_has_the_bits_of_the_oracle() -> None:
    """The same over a draft."""
    story = (0, 4, 9, 4, 4, 1)
    (rows,) = logits(described(small_draft()), list(story[:5]), strict_elementary())
    expected = mean_head_loss([list(zip(rows, story[1:], strict=True))], strict_elementary())
    assert expected == float(small_draft().loss(Tape(STRICT, recording=False), StoryBatch((story,), 5)).value)


@pytest.mark.parametrize("name", NAMES)
def test_a_description_makes_the_same_model(name: str) -> None:
    """Model, description, model: equal parameters under equal names, so the oracle reads what the model holds."""
    model = small(name)
    configuration = model.configuration
    again = model_of(described(model), configuration.context, configuration.channels_per_group)
    for one, other in zip(model.parameters, again.parameters, strict=True):
        assert (one.name, one.value.tobytes()) == (other.name, other.value.tobytes())


def test_a_group_of_one_is_a_plain_projection() -> None:
    """Where no second group fits, a grouped stack has the bits of a dense projection with its weights."""
    dense = Decoder.initialize(CONFIGURATIONS["attention"], SplitMix64(3))
    stir(dense.parameters, 3)
    grouped = Decoder.initialize(replace(CONFIGURATIONS["attention"], channels_per_group=9), SplitMix64(3))
    for one, other in zip(dense.parameters, grouped.parameters, strict=True):
        other.assign(one.value.reshape(other.shape))
    ids = sequence(13, TOKENS)
    assert batch_path(dense, ids).tobytes() == batch_path(grouped, ids).tobytes()
