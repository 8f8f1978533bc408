"""What AdamW refuses, in which order, and that a refused step writes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.autograd import Parameter
from cai_reference.errors import CaiReferenceError
from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    AdamWState,
    GradientNormalization,
    GradientScale,
    Moments,
    ParameterGroups,
)
from cai_reference.training.errors import AdamWError
from support_refusals import raises

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


RATES = [0.0, -1.0, NAN, INF]
CONFIGURATIONS: list[tuple[tuple[float, float, float, float, float], CaiReferenceError]] = [
    *(((rate, NAN, NAN, NAN, NAN), AdamWError("invalid-learning-rate", value=rate)) for rate in RATES),
    *(((0.1, beta, NAN, NAN, NAN), AdamWError("invalid-beta1", value=beta)) for beta in (-0.1, 1.0, NAN)),
    *(((0.1, 0.0, beta, NAN, NAN), AdamWError("invalid-beta2", value=beta)) for beta in (-0.1, 1.0, INF)),
    *(((0.1, 0.0, 0.0, epsilon, NAN), AdamWError("invalid-epsilon", value=epsilon)) for epsilon in RATES),
    *(((0.1, 0.0, 0.0, 1e-8, decay), AdamWError("invalid-weight-decay", value=decay)) for decay in (-1e-9, NAN, INF)),
    ((0.5, 0.0, 0.0, 1e-8, 2.0), AdamWError("invalid-decay-product", learning_rate=0.5, weight_decay=2.0, product=1.0)),
    (
        (1e-200, 0.0, 0.0, 1e-8, 1e-200),
        AdamWError("invalid-decay-product", learning_rate=1e-200, weight_decay=1e-200, product=0.0),
    ),
    (
        (1e200, 0.0, 0.0, 1e-8, 1e200),
        AdamWError("invalid-decay-product", learning_rate=1e200, weight_decay=1e200, product=INF),
    ),
]


@pytest.mark.parametrize(("values", "expected"), CONFIGURATIONS)
def test_hyperparameters_are_checked_in_order(
    values: tuple[float, float, float, float, float], expected: CaiReferenceError
) -> None:
    """Rate, beta1, beta2, epsilon, decay, then the product of rate and decay."""
    with raises(expected):
        AdamWConfiguration(*values)


def test_a_large_rate_without_decay_is_legal() -> None:
    """The product is only looked at where something decays."""
    assert 0.0 == AdamWConfiguration(1e300, 0.0, 0.0).weight_decay


def test_step_checks_come_in_order() -> None:
    """Transform, names, groups, names of the first step, gradients parameter by parameter."""
    w, again, other = scalar("w", 1.0), scalar("w", 1.0), scalar("x", 1.0)
    adamw = optimizer(COURSE)
    with raises(AdamWError("invalid-gradient-scale", value=0.0)):
        adamw.step([], GradientScale(0.0))
    with raises(AdamWError("invalid-gradient-normalization", divisor=1.0, multiplier=INF)):
        adamw.step([], GradientNormalization(1.0, INF))
    with raises(AdamWError("empty-parameter-set")):
        adamw.step([])
    with raises(AdamWError("duplicate-parameter-name", name="w", first=1, repeated=2)):
        adamw.step([other, w, again])
    with raises(AdamWError("parameter-set-changed", expected=("w",), actual=("w", "x"))):
        adamw.step([other, w])
    with raises(AdamWError("missing-gradient", name="w")):
        adamw.step_with([w], {})
    with raises(AdamWError("gradient-shape-mismatch", name="w", parameter=(1,), gradient=(2,))):
        adamw.step_with([w], {"w": np.zeros(2)})
    adamw.step([w])
    with raises(AdamWError("parameter-shape-changed", name="w", expected=(1,), actual=(2,))):
        adamw.step([Parameter("w", np.zeros(2))])
    adamw.groups = ParameterGroups(("x",))
    with raises(AdamWError("parameter-set-changed", expected=("w",), actual=("x",))):
        adamw.step([other])


def with_moments(first: float, second: float) -> AdamWState:
    """Return a state as if restored from elsewhere."""
    return AdamWState(moments={"w": Moments(np.array([0.0, first]), np.array([0.0, second]))})


STAGES: dict[str, tuple[AdamWConfiguration, AdamWState, float, float, float]] = {
    "first moment": (COURSE, AdamWState(), 1.0, NAN, NAN),
    "squared gradient": (COURSE, AdamWState(), 1.0, -1e200, INF),
    "second moment": (COURSE, with_moments(0.0, INF), 1.0, 0.0, INF),
    "bias-corrected first moment": (COURSE, with_moments(1e308, 0.0), 1.0, 0.0, INF),
    "bias-corrected second moment": (COURSE, with_moments(0.0, 1e306), 1.0, 0.0, INF),
    "adaptive direction": (COURSE, with_moments(-1e305, 0.0), 1.0, 0.0, -INF),
    "adaptive update": (AdamWConfiguration(1e10), with_moments(1e292, 0.0), 1.0, 0.0, INF),
    "updated parameter": (AdamWConfiguration(1.7e308), AdamWState(), 1.7e308, -1.0, INF),
}


@pytest.mark.parametrize(("stage", "case"), STAGES.items(), ids=STAGES)
def test_a_failing_stage_is_named_and_nothing_is_written(
    stage: str, case: tuple[AdamWConfiguration, AdamWState, float, float, float]
) -> None:
    """The first stage in the order of the formulas; earlier parameters and the state stay as they were."""
    configuration, state, weight, gradient, value = case
    good, bad = scalar("a", 1.0, 1.0), Parameter("w", np.array([0.0, weight]))
    bad.gradient = np.array([0.0, gradient])
    adamw = optimizer(configuration, "a", "w")
    adamw.state = replace(
        state, moments=dict(state.moments) | {"a": Moments(np.zeros(1), np.zeros(1))} if state.moments else {}
    )
    before = adamw.state
    with raises(AdamWError("non-finite-arithmetic", name="w", index=1, stage=stage, value=value)):
        adamw.step([good, bad])
    assert before is adamw.state
    assert (1.0, 0) == (good.value[0], good.revision)
    assert ([0.0, weight], 0) == (bad.value.tolist(), bad.revision)


def test_the_first_weight_that_fails_is_named() -> None:
    """Row-major, even if a later one fails at an earlier stage."""
    w = Parameter("w", np.zeros((2, 2)))
    w.gradient = np.array([[0.0, 1e200], [NAN, 0.0]])
    with raises(AdamWError("non-finite-arithmetic", name="w", index=1, stage="squared gradient", value=INF)):
        optimizer(COURSE).step([w])


def test_an_overflowing_transform_is_an_error_of_the_step() -> None:
    """Not a warning."""
    with raises(AdamWError("non-finite-arithmetic", name="w", index=0, stage="first moment", value=INF)):
        optimizer(COURSE).step([scalar("w", 1.0, 1e300)], GradientScale(1e300))
