"""Learning-rate schedules: which rate each step has, at every border."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Parameter
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups, all_but_gains, everything
from cai_reference.training.errors import AdamWError, TrainingError
from cai_reference.training.schedules import AnySchedule, ConstantRate, DecayShape, SteppedRate, WarmupDecay
from support_refusals import raises

STEPPED = SteppedRate(((0.04, 2), (0.025, 1), (0.5, 3)))


def rates(schedule: AnySchedule, last: int) -> list[float]:
    """Return the rates of steps 1 to `last`."""
    return [schedule.rate(step, STRICT) for step in range(1, last + 1)]


class TestRates:
    """The first step is step 1."""

    def test_constant(self) -> None:
        """The same number for ever."""
        assert [0.3] * 4 == rates(ConstantRate(0.3), 4)
        assert 0.3 == ConstantRate(0.3).rate(10**12, STRICT)

    def test_stages_follow_each_other(self) -> None:
        """Each for its own number of steps."""
        assert ([0.04, 0.04, 0.025, 0.5, 0.5, 0.5], 6) == (rates(STEPPED, 6), STEPPED.steps)

    def test_warm_up_reaches_the_peak_at_its_last_step(self) -> None:
        """The first update has a quarter of it, not 0."""
        schedule = WarmupDecay(0.5, 0.125, 4, 8, DecayShape.LINEAR)
        assert [0.125, 0.25, 0.375, 0.5] == rates(schedule, 4)

    def test_a_linear_decay_is_a_straight_line_to_the_floor(self) -> None:
        """And stays there."""
        schedule = WarmupDecay(0.5, 0.125, 4, 8, DecayShape.LINEAR)
        assert [0.5, 0.40625, 0.3125, 0.21875, 0.125, 0.125, 0.125] == rates(schedule, 10)[3:]

    def test_a_cosine_decay_is_half_way_in_the_middle(self) -> None:
        """0.75 of the way down at two thirds, because cos 120° is −½."""
        schedule = WarmupDecay(0.9, 0.1, 0, 6, DecayShape.COSINE)
        found = rates(schedule, 7)
        assert (0.1, 0.1) == (found[5], found[6])
        expected = [0.1 + 0.8 * 0.5 * (1.0 + math.cos(math.pi * step / 6.0)) for step in range(1, 7)]
        np.testing.assert_allclose(found[:6], expected, rtol=1e-15)
        np.testing.assert_allclose([found[2], found[3]], [0.5, 0.1 + 0.25 * 0.8], rtol=1e-15)

    def test_without_warm_up_the_first_step_is_already_below_the_peak(self) -> None:
        """One of three steps down a straight line."""
        np.testing.assert_allclose(
            [0.7, 0.4, 0.1], rates(WarmupDecay(1.0, 0.1, 0, 3, DecayShape.LINEAR), 3), rtol=1e-15
        )

    def test_warm_up_alone_goes_over_into_the_floor(self) -> None:
        """There is no decay to be in."""
        assert [0.25, 0.5, 0.125, 0.125] == rates(WarmupDecay(0.5, 0.125, 2, 2), 4)

    def test_a_floor_at_the_peak_is_a_constant_after_warm_up(self) -> None:
        """In both shapes."""
        for shape in DecayShape:
            assert [0.2, 0.4, 0.4, 0.4, 0.4] == rates(WarmupDecay(0.4, 0.4, 2, 4, shape), 5)

    def test_the_cosine_is_that_of_the_arithmetic(self) -> None:
        """Both arithmetics agree to the last few bits; neither rate ever leaves its bounds."""
        schedule = WarmupDecay(1.0, 1e-3, 3, 200)
        strict = rates(schedule, 200)
        libm = [schedule.rate(step, LIBM) for step in range(1, 201)]
        np.testing.assert_allclose(strict, libm, rtol=1e-13)
        assert strict[2:] == sorted(strict[2:], reverse=True)
        assert 1e-3 == min(strict[2:]) and 1.0 == max(strict)


class TestRefusals:
    """A schedule is checked when it is made; a step when it is asked for."""

    @pytest.mark.parametrize("schedule", [ConstantRate(1.0), STEPPED, WarmupDecay(1.0, 0.1, 1, 2)])
    def test_steps_count_from_one(self, schedule: AnySchedule) -> None:
        """Whoever counts from 0 is told."""
        with raises(TrainingError("step-before-first", step=0)):
            schedule.rate(0, STRICT)

    def test_the_steps_hold_the_warm_up(self) -> None:
        """And at least one step."""
        for warmup, steps, expected in (
            (-1, 9, TrainingError("invalid-schedule-length", what="the warm-up", steps=-1, least=0)),
            (4, 3, TrainingError("invalid-schedule-length", what="the schedule", steps=3, least=4)),
            (0, 0, TrainingError("invalid-schedule-length", what="the schedule", steps=0, least=1)),
        ):
            with raises(expected):
                WarmupDecay(0.5, 0.1, warmup, steps)


class TestStepsAtARate:
    """The optimiser makes one step at another rate than its own."""

    def optimizer(self, decay: float = 0.5) -> tuple[Parameter, AdamW]:
        """Return a weight with a gradient, and its optimiser at rate 0.25."""
        weight = Parameter("w", np.array([2.0]))
        weight.gradient = np.array([3.0])
        return weight, AdamW(AdamWConfiguration(0.25, weight_decay=decay), ParameterGroups(("w",)))

    def test_update_and_decay_use_the_rate_of_the_step(self) -> None:
        """The new weight is w − η·(m̂ / (√v̂ + ε)) − (η·λ)·w with η = 0.125."""
        weight, optimizer = self.optimizer()
        optimizer.step_at(0.125, [weight])
        direction = 3.0 / (3.0 + 1e-8)
        np.testing.assert_allclose(weight.value, [2.0 - 0.125 * direction - 0.125 * 0.5 * 2.0], rtol=1e-15)

    def test_the_configuration_keeps_its_own_rate(self) -> None:
        """After a step, and after a refused one."""
        weight, optimizer = self.optimizer()
        optimizer.step_at(0.125, [weight])
        with raises(AdamWError("invalid-learning-rate", value=-1.0)):
            optimizer.step_at(-1.0, [weight])
        with raises(AdamWError("invalid-decay-product", learning_rate=4.0, weight_decay=0.5, product=2.0)):
            optimizer.step_at(4.0, [weight])
        assert (0.25, 1) == (optimizer.configuration.learning_rate, optimizer.state.step)

    def test_its_own_rate_gives_the_bits_of_a_plain_step(self) -> None:
        """Nothing else differs."""
        (one, first), (other, second) = self.optimizer(), self.optimizer()
        first.step([one])
        second.step_at(0.25, [other])
        assert (one.value, first.state.moments["w"]) == (other.value, second.state.moments["w"])

    def test_gains_do_not_decay(self) -> None:
        """By the end of their names; everything else does, biases too."""
        names = ("table.weight", "norm.gain", "gain.weight", "final.gain", "out.bias")
        parameters = [Parameter(name, np.ones(1)) for name in names]
        groups = all_but_gains(parameters)
        assert ("table.weight", "gain.weight", "out.bias") == groups.decay
        assert ("norm.gain", "final.gain") == groups.no_decay
        assert ParameterGroups(names) == everything(parameters)
