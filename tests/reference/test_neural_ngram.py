"""The neural n-gram: the small exact vector, the registry, its checks, and the plain replica bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic.bits import sha256_of
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.errors import CaiReferenceError, LayerError
from cai_reference.models.neural_ngram import PARAMETER_NAMES, NeuralNgram, NeuralNgramConfiguration, NgramError
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import Window
from support_course import PARAMETER_DIGESTS, needs_c_library
from support_models import COURSE_SIZES, four_word_model
from support_ngram_oracle import forward, initial_parameters, loss_and_gradients
from support_refusals import raises

FOUR_WORD_HIDDEN = 2.0 * (0.2 / (1.0 + math.exp(-0.2))) * 0.3


def window(context: tuple[int, ...], target: int) -> Window:
    """Return a window of which only the last target is meant to count."""
    return Window(context, (*context[1:], target))


def test_the_small_exact_vector() -> None:
    """Four words, one feature: the logits are h, 2h, −h and 0."""
    logits = four_word_model().next_token_logits(LIBM, [1, 2]).tolist()
    expected = [FOUR_WORD_HIDDEN, 2.0 * FOUR_WORD_HIDDEN, -FOUR_WORD_HIDDEN, 0.0]
    assert pytest.approx(expected, rel=1e-15) == logits


def test_the_sizes_of_the_course() -> None:
    """3384 scalars; another small model has 141."""
    assert 3384 == COURSE_SIZES.parameters
    assert ((266, 4), (8, 8), (8, 8), (8, 8), (8, 266)) == COURSE_SIZES.shapes()
    small = NeuralNgramConfiguration(7, 2, 3, 5)
    assert (6, 141) == (small.concatenated, small.parameters)


def test_all_parameters_come_from_one_stream() -> None:
    """Seed 23 gives the published bits of all five matrices after 3384 draws."""
    generator = SplitMix64(23)
    model = NeuralNgram.initialize(COURSE_SIZES, generator)
    assert f"sha256:{PARAMETER_DIGESTS[0]}" == sha256_of(parameter.value for parameter in model.parameters)
    assert 0x6D510C0AA09835AF == generator.state
    assert PARAMETER_NAMES == tuple(parameter.name for parameter in model.parameters)
    assert COURSE_SIZES.shapes() == tuple(parameter.shape for parameter in model.parameters)


@needs_c_library
def test_the_published_probe() -> None:
    """Context (67, 118) before any update."""
    model = NeuralNgram.initialize(COURSE_SIZES, SplitMix64(23))
    stages = model.forward(Tape(LIBM), [67, 118], 1)
    assert [
        -0.0024482250853788564,
        -5.1254324384814455e-05,
        0.003220453964978056,
        0.0034768149418409975,
        0.0020327112418576376,
        0.004016485472875636,
        0.0037274716748420694,
        0.0038741495677667493,
    ] == stages.hidden.value[0].tolist()
    logits = stages.logits.value[0]
    assert [
        7.503229858391573e-05,
        -3.663631298167757e-05,
        0.0004958339211282289,
        -0.0010465573860589097,
        -5.5310697892755587e-05,
        -0.0010323506957229311,
    ] == logits[:6].tolist()
    assert (44, 0.002349945581982525) == (int(logits.argmax()), float(logits.max()))


def test_the_stages_have_their_shapes() -> None:
    """Embeddings of a context are laid side by side, oldest first."""
    model = NeuralNgram.initialize(NeuralNgramConfiguration(7, 2, 3, 5), SplitMix64(1))
    stages = model.forward(Tape(STRICT), [4, 0, 6, 4], 2)
    assert ((2, 2, 3), (2, 6), (2, 5), (2, 7)) == (
        stages.embeddings.shape,
        stages.concatenated.shape,
        stages.hidden.shape,
        stages.logits.shape,
    )
    table = model.parameters[0].value
    assert np.concatenate([table[4], table[0]]).tolist() == stages.concatenated.value[0].tolist()


@st.composite
def small_cases(draw: st.DrawFn) -> tuple[NeuralNgramConfiguration, int, list[Window]]:
    """Draw sizes, a seed and a batch in which ids repeat."""
    sizes = NeuralNgramConfiguration(*(draw(st.integers(1, high)) for high in (5, 3, 3, 4)))
    ids = st.integers(0, sizes.vocabulary - 1)
    context = st.tuples(*[ids] * sizes.context)
    batch = draw(st.lists(st.builds(window, context, ids), min_size=1, max_size=5))
    return sizes, draw(st.integers(0, 2**64 - 1)), batch


@settings(max_examples=40)
@given(small_cases())
def test_loss_and_gradients_are_the_replicas_bit_for_bit(
    case: tuple[NeuralNgramConfiguration, int, list[Window]],
) -> None:
    """Any sizes, any batch, through the C library: plain loops in the published order give the same doubles."""
    sizes, seed, batch = case
    model = NeuralNgram.initialize(sizes, SplitMix64(seed))
    matrices = initial_parameters(seed, sizes.shapes())
    scored = [(member.inputs, member.targets[-1]) for member in batch]
    expected_loss, expected_gradients = loss_and_gradients(matrices, scored, math.exp, math.log1p)
    loss = model.loss(Tape(LIBM), batch)
    backward(loss)
    assert expected_loss.hex() == float(loss.value).hex()
    for parameter, expected in zip(model.parameters, expected_gradients, strict=True):
        assert np.array(expected).tobytes() == parameter.gradient.tobytes(), parameter.name


@settings(max_examples=20)
@given(small_cases())
def test_one_context_alone_has_the_bits_it_has_in_a_batch(
    case: tuple[NeuralNgramConfiguration, int, list[Window]],
) -> None:
    """In strict arithmetic the width of a batch changes nothing, and the replica agrees through the C library."""
    sizes, seed, batch = case
    model = NeuralNgram.initialize(sizes, SplitMix64(seed))
    together = model.forward(Tape(STRICT), [token for member in batch for token in member.inputs], len(batch))
    for row, member in enumerate(batch):
        alone = model.next_token_logits(STRICT, member.inputs)
        assert alone.tobytes() == together.logits.value[row].tobytes()
        plain = forward(initial_parameters(seed, sizes.shapes()), member.inputs, math.exp)
        assert np.array(plain.logits).tobytes() == model.next_token_logits(LIBM, member.inputs).tobytes()


def test_a_wide_batch_has_the_replicas_bits() -> None:
    """With more than 256 results at once sums take their other way of computing."""
    sizes = NeuralNgramConfiguration(40, 2, 6, 9)
    order = SplitMix64(8)
    batch = [window((order.next_u64() % 40, order.next_u64() % 40), order.next_u64() % 40) for _ in range(50)]
    model = NeuralNgram.initialize(sizes, SplitMix64(4))
    scored = [(member.inputs, member.targets[-1]) for member in batch]
    expected_loss, expected = loss_and_gradients(initial_parameters(4, sizes.shapes()), scored, math.exp, math.log1p)
    loss = model.loss(Tape(LIBM), batch)
    backward(loss)
    assert expected_loss.hex() == float(loss.value).hex()
    assert [np.array(gradient).tobytes() for gradient in expected] == [
        parameter.gradient.tobytes() for parameter in model.parameters
    ]


def test_only_the_last_target_counts() -> None:
    """The targets inside the context are ignored, even if they are no ids at all."""
    model = four_word_model()
    one = model.loss(Tape(STRICT), [Window((1, 2), (2, 3))])
    other = model.loss(Tape(STRICT), [Window((1, 2), (99, 3))])
    assert one.value.tobytes() == other.value.tobytes()


def test_a_forward_pass_needs_as_many_ids_as_it_says() -> None:
    """Rows, count, then the ids themselves."""
    model = four_word_model()
    with raises(NgramError("empty-batch")):
        model.forward(Tape(STRICT), [9], 0)
    with raises(NgramError("context-token-count-mismatch", expected=4, actual=3)):
        model.forward(Tape(STRICT), [9, 9, 9], 2)
    with raises(LayerError("token-id-out-of-bounds", position=1, token_id=4, vocabulary_size=4)):
        model.forward(Tape(STRICT), [3, 4], 1)


BATCHES: dict[str, tuple[list[Window], CaiReferenceError]] = {
    "no windows": ([], NgramError("empty-batch")),
    "context before targets": (
        [Window((1, 2), ()), Window((1,), (9,))],
        NgramError("batch-context-length-mismatch", expected=2, actual=1),
    ),
    "no target": ([Window((1, 2), (2, 3)), Window((1, 2), ())], NgramError("missing-target-row", row=1)),
    "target": (
        [Window((9, 9), (2, 3)), Window((1, 2), (2, 4))],
        NgramError("target-id-out-of-bounds", row=1, token_id=4, vocabulary_size=4),
    ),
    "negative target": (
        [Window((1, 2), (2, -1))],
        NgramError("target-id-out-of-bounds", row=0, token_id=-1, vocabulary_size=4),
    ),
    "context id": (
        [Window((9, 9), (2, 3))],
        LayerError("token-id-out-of-bounds", position=0, token_id=9, vocabulary_size=4),
    ),
}


@pytest.mark.parametrize(("windows", "expected"), BATCHES.values(), ids=BATCHES)
def test_a_batch_is_checked_before_the_forward_pass(windows: list[Window], expected: CaiReferenceError) -> None:
    """Rows, context length, presence and bounds of targets; only then the ids of the contexts."""
    with raises(expected):
        four_word_model().loss(Tape(STRICT), windows)
