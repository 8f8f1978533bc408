"""The library's documented example, in small: its gradients by finite differences, and that it learns."""

from __future__ import annotations

import math

import numpy as np

from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.training import AdamSettings, FitSchedule, LegacyFit, LegacyTrainer
from cai_neural_api.training.pairs import difference, make_pairs
from cai_reference.arithmetic.instances import FAST
from support_cai_block import CaiConfiguration, build_cai_example
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
        trainer = LegacyTrainer(small_net(), AdamSettings(0.01), FAST)
        running = LegacyFit(trainer, STORIES, FitSchedule(6, 60, 3, 8, 1), MersenneTwister(1))
        losses = [event.validation.loss for event in running.run() if event.validation is not None]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.9 * trainer_loss()


def trainer_loss() -> float:
    """Return the loss of the untrained net on the same stories."""
    return LegacyTrainer(small_net(), AdamSettings(0.01), FAST).evaluate(STORIES).loss
