"""The library's Adam: plain loops over its rules, and each rule by a number worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import Learned
from cai_neural_api.training import AdamSettings, LegacyAdam
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from support_legacy_training import tiny_net

Row = list[float]
EXEMPT = ("TNNetDyT", "TNNetTokenShift", "TNNetDiagonalSSM")


def gradients(net: Net, fill: Callable[[tuple[int, ...]], Array] | float) -> list[Learned | None]:
    """Return made-up gradients of all layers: a number for all, or what a function makes of a shape."""

    def filled(shape: tuple[int, ...]) -> Array:
        return np.full(shape, fill) if isinstance(fill, float) else fill(shape)

    return [
        None
        if layer.learned is None
        else Learned(tuple(filled(array.shape) for array in layer.learned.weights), filled(layer.learned.biases.shape))
        for layer in net.layers
    ]


class Oracle:
    """The rules, number by number, for one layer: its weights, then its biases, as one list."""

    def __init__(self, kind: str, weights: Row, biases: Row, settings: AdamSettings) -> None:
        self.values = [*weights, *biases]
        self.lost = len(weights)
        self.kind, self.settings = kind, settings
        self.first = [0.0] * len(self.values)
        self.second = [0.0] * len(self.values)
        self.steps = 0

    def step(self, gradient: Sequence[float]) -> None:
        """Take a step."""
        s = self.settings
        self.steps += 1
        moves = []
        for index, g in enumerate(gradient):
            d = 0.0 if self.steps == 1 and index < self.lost else -s.rate * g
            self.first[index] = s.beta1 * self.first[index] + (1 - s.beta1) * d
            self.second[index] = s.beta2 * self.second[index] + (1 - s.beta2) * d * d
            m = self.first[index] / (1 - s.beta1**self.steps)
            v = self.second[index] / (1 - s.beta2**self.steps)
            moves.append(s.rate * m / (math.sqrt(v) + s.epsilon))
        norm = math.sqrt(sum(move * move for move in moves))
        scale = s.limit / norm if norm > s.limit else 1.0
        decay = 0.0 if self.kind in EXEMPT else s.decay * s.rate
        self.values = [(value + scale * move) * (1 - decay) for value, move in zip(self.values, moves, strict=True)]


def flat(learned: Learned) -> Row:
    """Return all numbers of a layer, weights first."""
    return [float(value) for array in learned.arrays for value in array.reshape(-1)]


def oracles(net: Net, settings: AdamSettings) -> dict[int, Oracle]:
    """Return an oracle for each layer that learns."""
    found = {}
    for index, (spec, layer) in enumerate(zip(net.specs, net.layers, strict=True)):
        if layer.learned is not None:
            values, biases = flat(layer.learned), layer.learned.biases.size
            found[index] = Oracle(spec.kind, values[: len(values) - biases], values[len(values) - biases :], settings)
    return found


class TestRules:
    """All rules together."""

    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
    @pytest.mark.parametrize("rate", [0.001, 0.5])
    def test_five_steps_are_those_of_plain_loops(self, rate: float, arithmetic: Arithmetic) -> None:
        """Over every class that learns, with gradients of many magnitudes; the larger rate meets the limit."""
        net = tiny_net(middle=EXEMPT)
        settings = AdamSettings(rate)
        expected, optimizer = oracles(net, settings), LegacyAdam(net, settings, arithmetic)
        generator = np.random.default_rng(3)
        for _ in range(5):
            batch = gradients(net, lambda shape: generator.normal(size=shape) * 10.0 ** generator.uniform(-9, 2, shape))
            optimizer.step(batch)
            for index, oracle in expected.items():
                learned, gradient = net.layers[index].learned, batch[index]
                assert learned is not None and gradient is not None
                oracle.step(flat(gradient))
                assert np.allclose(oracle.values, flat(learned), rtol=1e-12, atol=1e-15)


def plain(limit: float = math.inf) -> AdamSettings:
    """Return settings with which nothing hides the step."""
    return AdamSettings(0.25, epsilon=0.0, limit=limit, decay=0.0)


def projection(net: Net) -> Learned:
    """Return what the hidden projection of a tiny net has learned."""
    learned = net.layers[2].learned
    assert learned is not None
    return learned


class TestFirstSteps:
    """The lost step and what follows from it."""

    def test_the_first_step_moves_biases_only(self) -> None:
        """By the whole rate, as a corrected first step does; weights stay."""
        net = tiny_net()
        before = projection(net).copy()
        LegacyAdam(net, plain(), STRICT).step(gradients(net, 3.0))
        assert np.array_equal(before.weights[0], projection(net).weights[0])
        assert np.allclose(projection(net).biases, before.biases - 0.25, rtol=0.0, atol=1e-15)

    def test_the_second_step_of_the_weights_is_corrected_as_a_second(self) -> None:
        """Though it is their first: (0.1 / 0.19) / √(0.02 / 0.0396) of the rate."""
        net = tiny_net()
        before = projection(net).copy()
        optimizer = LegacyAdam(net, plain(), STRICT)
        for _ in range(2):
            optimizer.step(gradients(net, 3.0))
        moved = before.weights[0] - projection(net).weights[0]
        assert np.allclose(moved, 0.25 * (0.1 / 0.19) / math.sqrt(0.02 / 0.0396), rtol=1e-12)
        assert np.allclose(before.biases - projection(net).biases, 0.5, rtol=1e-12)

    def test_epsilon_is_large_beside_small_gradients(self) -> None:
        """It is added to the root of what the rate has already made smaller."""
        net = tiny_net()
        settings = AdamSettings(0.25, epsilon=1e-7, limit=math.inf, decay=0.0)
        LegacyAdam(net, settings, STRICT).step(gradients(net, 4e-7))
        assert np.allclose(projection(net).biases, -0.25 * 1e-7 / 2e-7, rtol=1e-12)


class TestLimit:
    """The norm of a layer's step."""

    def test_it_holds_for_weights_and_biases_together(self) -> None:
        """Of the whole layer, after Adam."""
        net = tiny_net()
        optimizer = LegacyAdam(net, plain(limit=0.5), STRICT)
        for _ in range(2):
            before = projection(net).copy()
            optimizer.step(gradients(net, 3.0))
        moves = [new - old for new, old in zip(projection(net).arrays, before.arrays, strict=True)]
        assert math.isclose(sum(float(np.sum(move * move)) for move in moves), 0.25, rel_tol=1e-12)
        weight, bias = float(moves[0].flat[0]), float(moves[1].flat[0])
        assert math.isclose(weight / bias, (0.1 / 0.19) / math.sqrt(0.02 / 0.0396), rel_tol=1e-12)

    def test_a_step_below_it_is_left_alone(self) -> None:
        """Four biases, each moved by a quarter: the norm is a half."""
        net = tiny_net()
        LegacyAdam(net, plain(limit=0.51), STRICT).step(gradients(net, 3.0))
        assert np.allclose(projection(net).biases, -0.25, rtol=1e-12)

    def test_it_does_not_look_at_gradients(self) -> None:
        """A gradient a thousand times larger makes the same step."""
        nets = [tiny_net(), tiny_net()]
        for net, factor in zip(nets, (1.0, 1024.0), strict=True):
            optimizer = LegacyAdam(net, plain(limit=0.1), STRICT)
            for _ in range(3):
                optimizer.step(gradients(net, 3.0 * factor))
        assert np.allclose(projection(nets[0]).weights[0], projection(nets[1]).weights[0], rtol=1e-12)


class TestDecay:
    """What the library calls L2."""

    def test_weights_table_and_biases_shrink(self) -> None:
        """By decay · rate, dead row 0 of the table included, where no gradient moves them."""
        net = tiny_net(middle=EXEMPT)
        for layer in net.layers:
            if layer.learned is not None:
                layer.learned.biases[...] = 2.0
        before = net.copy()
        LegacyAdam(net, AdamSettings(0.25), STRICT).step(gradients(net, 0.0))
        for spec, layer, old in zip(net.specs, net.layers, before.layers, strict=True):
            if layer.learned is None or old.learned is None:
                continue
            kept = 1.0 if spec.kind in EXEMPT else 0.975
            for array, unchanged in zip(layer.learned.arrays, old.learned.arrays, strict=True):
                assert np.array_equal(unchanged * kept, array), spec.kind

    def test_a_bias_without_gradient_only_shrinks(self) -> None:
        """It is stored, so it decays."""
        net = tiny_net(bias=False)
        projection(net).biases[...] = 1.0
        optimizer = LegacyAdam(net, AdamSettings(0.25), FAST)
        batch = gradients(net, 3.0)
        hidden = batch[2]
        assert hidden is not None
        hidden.biases[...] = 0.0
        for _ in range(2):
            optimizer.step(batch)
        assert np.allclose(projection(net).biases, 0.975 * 0.975, rtol=1e-15)


class TestRates:
    """A learning rate that changes."""

    def test_a_new_rate_forgets_the_moments(self) -> None:
        """The next step is a corrected first step at that rate, and none of it is lost."""
        net = tiny_net()
        optimizer = LegacyAdam(net, plain(), STRICT)
        for _ in range(3):
            optimizer.step(gradients(net, 3.0))
        before = projection(net).copy()
        optimizer.change_rate(0.125)
        optimizer.step(gradients(net, -7.0))
        for new, old in zip(projection(net).arrays, before.arrays, strict=True):
            assert np.allclose(new - old, 0.125, rtol=1e-12)

    def test_the_same_rate_forgets_nothing(self) -> None:
        """Two optimisers, one of which is told its own rate between steps."""
        nets = [tiny_net(), tiny_net()]
        for net, told in zip(nets, (True, False), strict=True):
            optimizer = LegacyAdam(net, plain(), STRICT)
            for gradient in (3.0, -1.0, 2.0):
                optimizer.step(gradients(net, gradient))
                if told:
                    optimizer.change_rate(0.25)
        assert np.array_equal(projection(nets[0]).weights[0], projection(nets[1]).weights[0])

    def test_a_new_rate_before_the_first_step_saves_nothing(self) -> None:
        """The weights' first step is lost all the same."""
        net = tiny_net()
        before = projection(net).copy()
        optimizer = LegacyAdam(net, plain(), STRICT)
        optimizer.change_rate(0.5)
        optimizer.step(gradients(net, 3.0))
        assert np.array_equal(before.weights[0], projection(net).weights[0])
        assert np.allclose(projection(net).biases, -0.5, rtol=1e-12)
