"""AdamW: steps worked out by hand and with fifty digits, where epsilon and the decay stand, transforms."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.autograd import Parameter
from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    GradientNormalization,
    GradientScale,
    GradientTransform,
    ParameterGroups,
)
from support_differences import drawn
from support_ngram_oracle import AdamW as ReplicaAdamW

COURSE = AdamWConfiguration(0.01, weight_decay=0.01)
NAN, INF = math.nan, math.inf


def scalar(name: str, value: float, gradient: float = 0.0) -> Parameter:
    """Return a parameter of one weight with a stored gradient."""
    parameter = Parameter(name, np.array([value]))
    parameter.gradient = np.array([gradient])
    return parameter


def optimizer(configuration: AdamWConfiguration, *decay: str) -> AdamW:
    """Return an optimiser that decays these parameters, or `w`."""
    return AdamW(configuration, ParameterGroups(decay or ("w",)))


def test_one_step_by_hand() -> None:
    """Every number on the way is exact: m 1, v 1, corrected 2 and 4, direction 2/(2+2), update and decay 1/4 each."""
    w = scalar("w", 1.0, 2.0)
    adamw = optimizer(AdamWConfiguration(0.5, beta1=0.5, beta2=0.75, epsilon=2.0, weight_decay=0.5))
    adamw.step([w])
    assert (1.0 - 0.25) - 0.25 == w.value[0]
    assert (1, 0.5, 0.75) == (adamw.state.step, adamw.state.beta1_power, adamw.state.beta2_power)
    moments = adamw.moments(w)
    assert ([1.0], [1.0]) == (moments.first.tolist(), moments.second.tolist())
    assert [2.0] == w.gradient.tolist(), "the optimiser leaves gradients alone"


def paper(w: Decimal, gradients: list[str], lr: str, beta1: str, beta2: str, epsilon: str, decay: str) -> Decimal:
    """Run the paper's formulas in decimal numbers."""
    rate, b1, b2 = Decimal(lr), Decimal(beta1), Decimal(beta2)
    m = v = Decimal(0)
    for t, gradient in enumerate(map(Decimal, gradients), start=1):
        m = b1 * m + (1 - b1) * gradient
        v = b2 * v + (1 - b2) * gradient * gradient
        direction = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + Decimal(epsilon))
        w = w - rate * (direction + Decimal(decay) * w)
    return w


@pytest.mark.parametrize("gradients", [["0.5", "-0.25", "0.125"], ["1e-9", "3e-9", "-2e-9"], ["1000", "0", "0"]])
def test_three_steps_agree_with_fifty_digits(gradients: list[str]) -> None:
    """Decimal arithmetic without rounding errors to speak of gives the same weight to 1e-15."""
    w = scalar("w", 0.75)
    adamw = optimizer(COURSE)
    for gradient in gradients:
        w.gradient = np.array([float(gradient)])
        adamw.step([w])
    with localcontext() as context:
        context.prec = 50
        expected = paper(Decimal("0.75"), gradients, "0.01", "0.9", "0.999", "1e-8", "0.01")
    assert pytest.approx(float(expected), abs=1e-15) == w.value[0]


@given(st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=6), st.floats(-1.0, 1.0), st.floats(0.0, 0.5))
def test_the_papers_formulas_agree(gradients: list[float], start: float, decay: float) -> None:
    """A scalar loop with powers instead of running products, and the decay added to the direction."""
    w, adamw = scalar("w", start), optimizer(AdamWConfiguration(0.01, weight_decay=decay if decay > 1e-9 else 0.0))
    theta, m, v = start, 0.0, 0.0
    for t, gradient in enumerate(gradients, start=1):
        w.gradient = np.array([gradient])
        adamw.step([w])
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        direction = (m / (1.0 - 0.9**t)) / (math.sqrt(v / (1.0 - 0.999**t)) + 1e-8)
        theta -= 0.01 * (direction + adamw.configuration.weight_decay * theta)
    assert abs(theta - float(w.value[0])) <= 1e-15 * max(1.0, abs(theta)) * len(gradients)


@settings(max_examples=30)
@given(st.integers(0, 2**64 - 1), st.integers(1, 17))
def test_the_replica_has_the_same_bits(seed: int, steps: int) -> None:
    """Weights, moments and powers after any number of steps."""
    shapes = ((3, 2), (1, 4))
    parameters = [Parameter(f"p{k}", drawn(shape, seed % 1000 + k, 0.5)) for k, shape in enumerate(shapes)]
    adamw, replica = optimizer(COURSE, "p0", "p1"), ReplicaAdamW()
    matrices = [parameter.value.tolist() for parameter in parameters]
    for step in range(steps):
        for k, shape in enumerate(shapes):
            parameters[k].gradient = drawn(shape, seed % 997 + 31 * step + k, 1e-2)
        adamw.step(parameters)
        matrices = replica.step(matrices, [parameter.gradient.tolist() for parameter in parameters])
    assert matrices == [parameter.value.tolist() for parameter in parameters]
    assert replica.first == [adamw.moments(parameter).first.tolist() for parameter in parameters]
    assert replica.second == [adamw.moments(parameter).second.tolist() for parameter in parameters]
    assert (replica.power1, replica.power2) == (adamw.state.beta1_power, adamw.state.beta2_power)


def test_powers_are_running_products() -> None:
    """After fifteen steps 0.9 has another last digit than by pow."""
    w, adamw = scalar("w", 1.0), optimizer(COURSE)
    for _ in range(15):
        adamw.step([w])
    assert (15, 0.2058911320946491) == (adamw.state.step, adamw.state.beta1_power)
    assert 0.20589113209464907 == 0.9**15


def test_epsilon_stands_outside_the_root() -> None:
    """For a gradient as small as epsilon the first direction is a half; inside the root it would be 1e-4."""
    w = scalar("w", 0.0, 1e-8)
    optimizer(AdamWConfiguration(0.01)).step([w])
    assert pytest.approx(-0.005, rel=1e-9) == w.value[0]


def test_the_decay_takes_the_weight_before_the_update() -> None:
    """(w − update) − (lr·wd)·w, in this order: other orders have other bits on some weights."""
    weights, gradients = drawn((500,), 3, 1.0), drawn((500,), 4, 1.0)
    w = Parameter("w", weights)
    w.gradient = gradients
    optimizer(AdamWConfiguration(0.3, weight_decay=0.7)).step([w])
    m = (1.0 - 0.9) * gradients
    v = (1.0 - 0.999) * (gradients * gradients)
    direction = (m / (1.0 - 0.9)) / (np.sqrt(v / (1.0 - 0.999)) + 1e-8)
    update, shrinkage = 0.3 * direction, (0.3 * 0.7) * weights
    assert ((weights - update) - shrinkage).tobytes() == w.value.tobytes()
    for other in (
        (weights - shrinkage) - update,
        weights - (update + shrinkage),
        weights * (1.0 - 0.3 * 0.7) - update,
        (weights - update) - 0.3 * (0.7 * weights),
        weights - 0.3 * (direction + 0.7 * weights),
        (weights - update) * (1.0 - 0.3 * 0.7),
    ):
        assert other.tobytes() != w.value.tobytes()


def test_without_a_gradient_only_the_decay_acts() -> None:
    """And only on the group that decays."""
    w, gain = scalar("w", 1.0), scalar("gain", 1.0)
    AdamW(COURSE, ParameterGroups(("w",), ("gain",))).step([w, gain])
    assert ([0.9999], [1.0]) == (w.value.tolist(), gain.value.tolist())


def test_the_order_of_the_parameters_does_not_matter() -> None:
    """Names do."""
    results = []
    for order in ((0, 1), (1, 0)):
        pair = [scalar("a", 1.0, 0.5), scalar("b", 2.0, -0.25)]
        optimizer(COURSE, "b", "a").step([pair[place] for place in order])
        results.append([member.value.tolist() for member in pair])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("transform", "used"), [(GradientScale(0.25), 0.5), (GradientNormalization(4.0, 3.0), 1.5), (None, 2.0)]
)
def test_a_transform_changes_what_the_moments_see(transform: GradientTransform | None, used: float) -> None:
    """The stored gradient stays as it was."""
    w, adamw = scalar("w", 1.0, 2.0), optimizer(AdamWConfiguration(0.5, beta1=0.5, beta2=0.5))
    adamw.step([w], transform)
    assert (0.5 * used, 2.0) == (adamw.moments(w).first[0], w.gradient[0])


def test_normalising_divides_first() -> None:
    """One factor would underflow, or round otherwise."""
    gradient = np.array([1e300, 3.0])
    assert [1e300 / 1e300 * 0.5, 3.0 / 1e300 * 0.5] == GradientNormalization(1e300, 0.5)(gradient).tolist()


def test_gradients_may_be_given_by_name() -> None:
    """Stored ones are not looked at then."""
    w = scalar("w", 1.0, NAN)
    optimizer(COURSE).step_with([w], {"w": np.array([0.0]), "other": np.array([INF])})
    assert [0.9999] == w.value.tolist()
