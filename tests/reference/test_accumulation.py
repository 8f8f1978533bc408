"""Gradients of micro-batches of different numbers of targets are those of the whole batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import STRICT, Array
from cai_reference.autograd import Parameter, Tape, backward
from cai_reference.autograd.errors import NonFiniteForward
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.decoder import Decoder
from cai_reference.models.errors import NoTargets
from cai_reference.splitmix import SplitMix64
from cai_reference.text import Window
from cai_reference.text.story_batches import StoryBatch, story_batches
from cai_reference.training.accumulation import accumulate_stories, accumulate_windows
from cai_reference.training.errors import NothingToAccumulate
from support_decoder_models import CONFIGURATIONS
from support_llama_models import small
from support_raising import raises

CONTEXT = 6
STORIES = [(0, 2, 3, 4, 5, 1), (0, 2, 1), (0, 6, 3, 4, 7, 8, 1), (0, 2, 9, 9, 1), (0, 3, 1)]
WINDOWS = [Window((a, b), (b, (a + b) % 5)) for a, b in ((1, 1), (2, 4), (1, 3), (0, 0), (4, 1))]


def decoder(name: str) -> Decoder:
    """Return a small decoder as it starts."""
    return Decoder.initialize(replace(CONFIGURATIONS[name], context=CONTEXT), SplitMix64(4))


def ngram() -> NeuralNgram:
    """Return a small n-gram as it starts."""
    return NeuralNgram.initialize(NeuralNgramConfiguration(5, 2, 3, 4), SplitMix64(9))


def micro_batches(*sizes: int) -> list[StoryBatch]:
    """Cut the stories, so many a micro-batch; each is as wide as its own longest story."""
    cut: list[StoryBatch] = []
    start = 0
    for size in sizes:
        cut.extend(story_batches(STORIES[start : start + size], size, CONTEXT))
        start += size
    return cut


def taken(parameters: Sequence[Parameter]) -> list[Array]:
    """Return the stored gradients and zero them."""
    gradients = [parameter.gradient for parameter in parameters]
    for parameter in parameters:
        parameter.zero_gradient()
    return gradients


def largest_difference(left: Sequence[Array], right: Sequence[Array]) -> float:
    """Return the largest distance between two sets of gradients."""
    return max(float(np.abs(one - other).max()) for one, other in zip(left, right, strict=True))


def whole(model: Decoder, batch: StoryBatch) -> tuple[float, list[Array]]:
    """Return loss and gradient of one batch."""
    loss = model.loss(Tape(STRICT), batch)
    backward(loss)
    return float(loss.value), taken(model.parameters)


class TestTokenMean:
    """The mean over all real targets, however they are cut."""

    @pytest.mark.parametrize("sizes", [(3, 2), (1, 4), (1, 1, 1, 1, 1)])
    @pytest.mark.parametrize("name", ["hybrid", "futures"])
    def test_stories_in_parts_are_stories_at_once(self, name: str, sizes: tuple[int, ...]) -> None:
        """Ragged stories, several heads, paddings of different widths."""
        model = decoder(name)
        loss, expected = whole(model, micro_batches(5)[0])
        found = accumulate_stories(model, micro_batches(*sizes), STRICT)
        assert math.isclose(loss, found, rel_tol=1e-14)
        assert largest_difference(expected, taken(model.parameters)) < 1e-15

    def test_the_mean_of_means_is_something_else(self) -> None:
        """A micro-batch of two targets would count as much as one of five, and of six."""
        model = decoder("hybrid")
        loss, expected = whole(model, micro_batches(5)[0])
        parts = [whole(model, batch) for batch in micro_batches(1, 1, 1, 1, 1)]
        wrong_loss = sum(part for part, _ in parts) / 5.0
        wrong = [sum((gradients[index] for _, gradients in parts), np.zeros(1)) / 5.0 for index in range(len(expected))]
        assert abs(wrong_loss - loss) > 1e-4
        assert largest_difference(expected, wrong) > 1e-3
        counts = [batch.target_count for batch in micro_batches(1, 1, 1, 1, 1)]
        assert ([5, 2, 6, 4, 2], 19) == (counts, sum(counts))

    def test_a_head_without_targets_in_a_part_has_no_share_in_it(self) -> None:
        """Two tokens are no target for the second head; the other parts still weigh as in the whole."""
        model = decoder("futures")
        stories = [(0, 2, 3, 4, 1), (0, 1), (0, 6, 1)]
        heads = model.configuration.futures
        assert heads > 1
        loss, expected = whole(model, story_batches(stories, 3, CONTEXT)[0])
        parts = story_batches(stories, 1, CONTEXT)
        with raises(NoTargets()):
            model.loss(Tape(STRICT), parts[1])
        assert math.isclose(loss, accumulate_stories(model, parts, STRICT), rel_tol=1e-14)
        assert largest_difference(expected, taken(model.parameters)) < 1e-15

    def test_windows_count_one_by_one(self) -> None:
        """Three and two windows of the n-gram are its five."""
        model = ngram()
        loss = model.loss(Tape(STRICT), WINDOWS)
        backward(loss)
        expected = taken(model.parameters)
        found = accumulate_windows(model, [WINDOWS[:3], WINDOWS[3:]], STRICT)
        assert math.isclose(float(loss.value), found, rel_tol=1e-14)
        assert largest_difference(expected, taken(model.parameters)) < 1e-16


class TestOrder:
    """Which sums are taken in which order."""

    def test_one_part_has_the_bits_of_a_plain_pass(self) -> None:
        """Its share is 1.0."""
        for name in ("hybrid", "futures"):
            model = decoder(name)
            loss, expected = whole(model, micro_batches(5)[0])
            assert loss == accumulate_stories(model, micro_batches(5), STRICT)
            assert [g.tobytes() for g in expected] == [g.tobytes() for g in taken(model.parameters)]

    def test_parts_are_added_one_after_the_other_from_adjoints_of_their_share(self) -> None:
        """A backward pass of each part's mean with the seed nᵢ / n, to the last bit."""
        model, parts = decoder("grouped"), micro_batches(2, 1, 2)
        total, loss = sum(part.target_count for part in parts), 0.0
        for part in parts:
            mean, share = model.loss(Tape(STRICT), part), part.target_count / total
            loss += float(mean.value) * share
            backward(mean, np.array(share))
        expected = taken(model.parameters)
        assert loss == accumulate_stories(model, parts, STRICT)
        assert [g.tobytes() for g in expected] == [g.tobytes() for g in taken(model.parameters)]

    def test_a_tied_table_collects_both_roles(self) -> None:
        """Of every part."""
        model = small("course")
        (batch,) = story_batches(STORIES, 5, CONTEXT)
        backward(model.loss(Tape(STRICT), batch))
        expected = taken(model.parameters)
        accumulate_stories(model, micro_batches(3, 2), STRICT)
        assert largest_difference(expected, taken(model.parameters)) < 1e-13

    def test_it_adds_to_what_is_stored(self) -> None:
        """As every backward pass does."""
        model = ngram()
        accumulate_windows(model, [WINDOWS], STRICT)
        once = [parameter.gradient for parameter in model.parameters]
        accumulate_windows(model, [WINDOWS], STRICT)
        twice = taken(model.parameters)
        assert [(g + g).tobytes() for g in once] == [g.tobytes() for g in twice]


class TestRefusals:
    """Nothing is stored of a batch that is refused in its middle."""

    def test_there_is_something_to_accumulate(self) -> None:
        """At least one micro-batch."""
        with raises(NothingToAccumulate()):
            accumulate_windows(ngram(), [], STRICT)
        with raises(NothingToAccumulate()):
            accumulate_stories(decoder("hybrid"), [], STRICT)

    def test_there_are_targets(self) -> None:
        """A mean over none is none."""
        nothing = StoryBatch(((0,),), 1)
        with raises(NoTargets()):
            accumulate_stories(decoder("hybrid"), [nothing, nothing], STRICT)

    def test_a_failed_part_leaves_the_stored_gradients(self) -> None:
        """Of the good part before it nothing stays; what was there before does."""
        model = small("course")
        table = model.table.value.copy()
        table[9] = 1e200
        model.table.assign(table)
        accumulate_stories(model, micro_batches(3), STRICT)
        assert all(gradient.any() for gradient in taken(model.parameters))
        for parameter in model.parameters:
            parameter.gradient = np.full(parameter.shape, 0.5)
        with raises(NonFiniteForward("mean square", 2, math.inf)):
            accumulate_stories(model, micro_batches(3, 1), STRICT)
        assert all((parameter.gradient == 0.5).all() for parameter in model.parameters)
