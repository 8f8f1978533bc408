"""The library's documented example, in small: its gradients by finite differences, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_reference.arithmetic import FAST
from cai_reference.legacy.initialization import initialize
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.training import AdamSettings, FitSchedule, LegacyFit, LegacyTrainer
from cai_reference.legacy.training.examples import CONFIGURATION, SCHEDULE, SETTINGS, rate
from cai_reference.legacy.training.pairs import make_pairs
from cai_reference.legacy.training.reporting import difference
from cai_reference.nets.builders import CaiConfiguration, build_cai_example
from cai_reference.nets.format.volumes import layer_volumes
from cai_reference.nets.graph.net import Net
from cai_reference.nets.shapes import layer_shapes
from support_legacy_training import STORIES

SMALL = CaiConfiguration(vocabulary=12, context=6, width=8, heads=2, intermediate=16, blocks=2)


def small_net() -> Net:
    """Return the example in small, with a larger table, so that its gradients are no rounding."""
    net = Net.from_file(initialize(build_cai_example(SMALL), MersenneTwister(3)))
    table = net.layers[1].learned
    assert table is not None
    table.weights[0][...] *= 50.0
    return net


def cross_entropy(net: Net) -> float:
    """Return the sum over all rows of −ln p of the target: what output − target is the gradient of."""
    pairs = make_pairs(STORIES, 6, 12, 1)
    p = np.take_along_axis(net.run(FAST, pairs.inputs).output, pairs.targets, axis=2)
    return -float(np.sum(np.log(p)))


class TestGradients:
    """What the layers of the example send back."""

    def test_they_are_the_slopes_of_the_cross_entropy(self) -> None:
        """With exact rules, at five places of everything that it learns."""
        net = small_net()
        pairs = make_pairs(STORIES, 6, 12, 1)
        run = net.run(FAST, pairs.inputs)
        gradients = net.gradients(FAST, run, difference(run.output, pairs.targets))
        generator, checked = np.random.default_rng(0), 0
        for spec, layer, gradient in zip(net.specs, net.layers, gradients, strict=True):
            if layer.learned is None or gradient is None:
                continue
            for values, slopes in zip(layer.learned.arrays, gradient.arrays, strict=True):
                if not np.any(slopes):
                    continue
                for place in generator.choice(values.size, min(5, values.size), replace=False):
                    index, kept = np.unravel_index(place, values.shape), values.flat[place]
                    values[index] = kept + 1e-6
                    above = cross_entropy(net)
                    values[index] = kept - 1e-6
                    below = cross_entropy(net)
                    values[index] = kept
                    slope = (above - below) / 2e-6
                    assert math.isclose(slope, float(slopes[index]), rel_tol=1e-5, abs_tol=1e-6), spec.kind
                    checked += 1
        assert checked >= 5 * (1 + 2 * 6 + 2)

    def test_suppressed_biases_have_none(self) -> None:
        """Nothing in a block has a bias that is used; the library's rule gives them one all the same."""
        net = small_net()
        pairs = make_pairs(STORIES, 6, 12, 1)
        run = net.run(FAST, pairs.inputs)
        clean = net.gradients(FAST, run, difference(run.output, pairs.targets))
        _, library = LegacyTrainer(net, AdamSettings(0.01), FAST).gradients(STORIES)
        for gradients, expected in ((clean, [True] * 12 + [False] * 2), (library, [False] * 14)):
            silent = [
                not np.any(gradient.biases)
                for spec, gradient in zip(net.specs, gradients, strict=True)
                if gradient is not None and spec.kind.startswith("TNNetPointwiseConv")
            ]
            assert expected == silent


class TestLearning:
    """That it learns by the library's rules."""

    def test_the_loss_falls(self) -> None:
        """Over three epochs, on the stories it draws from."""
        trainer = LegacyTrainer(small_net(), AdamSettings(rate(0) * 20.0), FAST)
        running = LegacyFit(trainer, STORIES, FitSchedule(6, 60, 3, 8, 1), MersenneTwister(1))
        losses = [event.validation.loss for event in running.run() if event.validation is not None]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.9 * trainer_loss()


def trainer_loss() -> float:
    """Return the loss of the untrained net on the same stories."""
    return LegacyTrainer(small_net(), AdamSettings(0.01), FAST).evaluate(STORIES).loss


class TestPublishedSettings:
    """The numbers of the documented program."""

    @pytest.mark.parametrize(
        ("epoch", "expected"),
        [(0, 5e-4), (1, 7.5e-4), (6, 2e-3), (7, 2e-3), (8, 1.8e-3), (9, 1.62e-3), (24, 3.3354363e-4), (25, 1e-4)],
    )
    def test_the_rate_rises_falls_and_stays(self, epoch: int, expected: float) -> None:
        """Worked out by hand: 0.002 · 0.9^17 in the twenty-fifth epoch, and one rate for good behind it."""
        assert math.isclose(expected, rate(epoch), rel_tol=1e-7)
        assert rate(400) == rate(25)

    def test_the_blocks_are_as_large_as_the_documented_ones(self) -> None:
        """A notebook of the library prints 7,190,528 for two of them behind 128 channels that are widened to 512."""
        around = 3000 * 128 + 128 * 512 + 512 * 128 + 128 * 3000
        specs = build_cai_example(CONFIGURATION)
        counted = sum(
            volume.count * volume.weights for layer in layer_volumes(specs, layer_shapes(specs)) for volume in layer
        )
        assert 7_190_528 - around == counted - 3000 * 512 - 512 * 512 - 512 * 3000

    def test_an_epoch_has_a_thousand_steps(self) -> None:
        """48,000 stories in batches of 48."""
        assert (48, 1000, 500, 2400) == (SCHEDULE.examples(1), SCHEDULE.steps(1), SCHEDULE.epochs, SCHEDULE.validation)
        assert (5e-4, 0.9, 0.98, 0.1) == (SETTINGS.rate, SETTINGS.beta1, SETTINGS.beta2, SETTINGS.decay)
