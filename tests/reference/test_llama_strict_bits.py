"""The batch path of Llama models against the slow oracle, bit for bit in strict/1: logits and losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.arithmetic.instances import LIBM as C_LIBRARY
from cai_reference.autograd import Tape
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.text.story_batches import StoryBatch
from support_decoder_elementary import LIBM, strict_elementary
from support_decoder_models import sequence
from support_decoder_oracle import mean_loss
from support_llama_conversion import described
from support_llama_models import CONFIGURATIONS, PLAIN, small, stirred
from support_llama_oracle import logits

NAMES = list(CONFIGURATIONS)
TOKENS = 8


def batch_path(model: Llama, ids: list[int], batch: int = 1, start: int = 0, arithmetic: Arithmetic = STRICT) -> Array:
    """Return the logits [batch, tokens, vocabulary]."""
    (head,) = model.forward(Tape(arithmetic, recording=False), ids, batch, start)
    return head.value


def oracle(model: Llama, ids: list[int], start: int = 0) -> Array:
    """Return the logits [tokens, vocabulary] of the slow oracle."""
    return np.array(logits(described(model), ids, strict_elementary(), start))


@pytest.mark.parametrize("start", [0, 5, 3000])
@pytest.mark.parametrize("name", NAMES)
def test_logits_have_the_bits_of_the_oracle(name: str, start: int) -> None:
    """Every position, windows filled several times, wherever the sequence starts."""
    model, ids = small(name), sequence(13, TOKENS)
    actual = batch_path(model, ids, start=start)[0]
    assert oracle(model, ids, start).tobytes() == actual.tobytes()
    assert np.std(actual) > 0.5


@st.composite
def configurations(draw: st.DrawFn) -> LlamaConfiguration:
    """Draw small sizes of every kind."""
    groups, shared = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return LlamaConfiguration(
        vocabulary=draw(st.integers(2, 7)),
        context=8,
        width=draw(st.integers(1, 5)),
        heads=groups * shared,
        feed_forward=draw(st.integers(1, 4)),
        layers=draw(st.integers(0, 2)),
        key_value_heads=groups,
        head_width=2 * draw(st.integers(1, 3)),
        window=draw(st.none() | st.integers(1, 5)),
        tied=draw(st.booleans()),
        rope_base=draw(st.sampled_from([2.0, 100.0, 10000.0])),
        rope_layout=draw(st.sampled_from(RopeLayout)),
        rope_frequencies=draw(st.sampled_from(Frequencies)),
        epsilon=draw(st.sampled_from([0.0, 1e-6, 0.125])),
        norm=draw(st.sampled_from(InverseForm)),
    )


@given(sizes=configurations(), seed=st.integers(0, 99), tokens=st.integers(1, 6), start=st.sampled_from([0, 5, 3000]))
@settings(max_examples=15)
def test_any_sizes_have_the_bits_of_the_oracle(sizes: LlamaConfiguration, seed: int, tokens: int, start: int) -> None:
    """Heads, groups, widths, windows, layouts, norms and heads in any combination."""
    model, ids = stirred(sizes, seed), sequence(sizes.vocabulary, tokens, seed)
    assert oracle(model, ids, start).tobytes() == batch_path(model, ids, start=start)[0].tobytes()


@pytest.mark.parametrize("name", ["grouped", "multi-query", "course"])
def test_the_c_library_serves_as_well(name: str) -> None:
    """With exp, log, sin and cos of libm/1 the order of operations is the same."""
    model, ids = small(name), sequence(13, TOKENS)
    expected = np.array(logits(described(model), ids, LIBM))
    assert expected.tobytes() == batch_path(model, ids, arithmetic=C_LIBRARY)[0].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_fast_differs_by_rounding_alone(name: str) -> None:
    """BLAS and NumPy's functions, within 1e-12 of the largest logit."""
    model, ids = small(name), sequence(13, TOKENS)
    strict, fast = (batch_path(model, ids, arithmetic=arithmetic) for arithmetic in (STRICT, FAST))
    assert np.max(np.abs(strict - fast)) <= 1e-12 * np.max(np.abs(strict))


@pytest.mark.parametrize("name", ["grouped", "window", "multi-query"])
def test_neighbours_and_later_tokens_change_nothing(name: str) -> None:
    """A row alone, the same row in a batch, and its prefixes have the same bits."""
    model = small(name)
    one, other = sequence(13, TOKENS), sequence(13, TOKENS, seed=8)
    together = batch_path(model, one + other, batch=2)
    for row, ids in enumerate((one, other)):
        assert batch_path(model, ids)[0].tobytes() == together[row].tobytes()
    for length in (1, 2, 7):
        assert batch_path(model, one[:length])[0].tobytes() == together[0, :length].tobytes()


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_how_far_a_token_reaches(layers: int, window: int) -> None:
    """The last logit that another first token moves is L·(W − 1) behind it."""
    model = stirred(replace(PLAIN, layers=layers, window=window))
    ids = sequence(13, TOKENS)
    one, other = batch_path(model, ids)[0], batch_path(model, [(ids[0] + 1) % 13, *ids[1:]])[0]
    moved = [token for token in range(TOKENS) if one[token].tobytes() != other[token].tobytes()]
    assert list(range(layers * (window - 1) + 1)) == moved


@pytest.mark.parametrize("name", ["grouped", "no-layers"])
def test_losses_have_the_bits_of_the_oracle(name: str) -> None:
    """Ragged stories, one longer than the batch is wide; the mean over real targets."""
    model = small(name)
    stories = ((0, 4, 9, 4, 4, 1), (0, 7, 1), (0, 2, 3, 5, 8, 10, 6, 3, 1))
    rows = [logits(described(model), list(story[:6]), strict_elementary()) for story in stories]
    targets = [
        (story_rows[position], story[position + 1])
        for story, story_rows in zip(stories, rows, strict=True)
        for position in range(min(6, len(story) - 1))
    ]
    expected = mean_loss(targets, strict_elementary())
    assert expected == float(model.loss(Tape(STRICT, recording=False), StoryBatch(stories, 6)).value)


def test_layouts_and_norms_and_frequencies_matter() -> None:
    """Each choice changes the logits of one and the same parameters."""
    base = small("grouped")
    ids = sequence(13, TOKENS)
    seen = {batch_path(base, ids).tobytes()}
    changes: tuple[dict[str, object], ...] = (
        {"rope_layout": RopeLayout.ADJACENT},
        {"rope_base": 10000.0},
        {"rope_base": 10000.0, "rope_frequencies": Frequencies.NEAREST},
        {"norm": InverseForm.EXPONENTIAL},
        {"epsilon": 1e-6},
        {"rope_base": 60.0},
        {"window": 4},
    )
    for change in changes:
        model = stirred(replace(PLAIN, **change))  # type: ignore[arg-type]
        seen.add(batch_path(model, ids).tobytes())
    assert len(changes) + 1 == len(seen)
