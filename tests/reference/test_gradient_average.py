"""Gradients added one window at a time: the true number divides, a refused contribution leaves no trace."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.arithmetic import LIBM
from cai_reference.autograd import Tape, backward
from cai_reference.errors import CaiReferenceError
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text import Window
from cai_reference.text.errors import (
    ContributionCountMismatch,
    EmptyAccumulator,
    GradientWidthMismatch,
    NonFiniteAccumulation,
    NonFiniteGradient,
    NonFiniteLoss,
    ZeroGradientWidth,
)
from cai_reference.training import AverageGradient, GradientAverage
from support_raising import raises

NAN, INF, LARGE = math.nan, math.inf, 1.7e308


def test_the_mean_of_two() -> None:
    """Losses and gradients alike."""
    average = GradientAverage(2, contributions=2)
    average.add(1.0, [2.0, -4.0])
    average.add(3.0, [4.0, 0.0])
    assert AverageGradient(2.0, (3.0, -2.0)) == average.mean()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_sums_ascend_from_zero(values: list[float]) -> None:
    """One addition a contribution, in order, and one division."""
    average = GradientAverage(1, len(values))
    total = 0.0
    for value in values:
        average.add(value, [value])
        total += value
    assert AverageGradient(total / len(values), (total / len(values),)) == average.mean()


def test_a_batch_at_once_has_the_same_gradient() -> None:
    """Up to rounding: the loop over windows and the batched sweep are two ways to one mean."""
    model = NeuralNgram.initialize(NeuralNgramConfiguration(5, 2, 2, 3), SplitMix64(2))
    windows = [Window((0, 3), (3, 4)), Window((3, 3), (3, 1)), Window((2, 4), (4, 2))]
    average = GradientAverage(model.configuration.parameters, len(windows))
    for window in windows:
        loss = model.loss(Tape(LIBM), [window])
        backward(loss)
        average.add(float(loss.value), [g for p in model.parameters for g in p.gradient.ravel().tolist()])
        for parameter in model.parameters:
            parameter.zero_gradient()
    loss = model.loss(Tape(LIBM), windows)
    backward(loss)
    mean = average.mean()
    assert pytest.approx(float(loss.value), rel=1e-15) == mean.loss
    batched = np.concatenate([parameter.gradient.ravel() for parameter in model.parameters])
    np.testing.assert_allclose(mean.gradient, batched, rtol=1e-12, atol=1e-17)


REFUSED: dict[str, tuple[float, list[float], CaiReferenceError]] = {
    "width first": (NAN, [NAN], GradientWidthMismatch(2, 1)),
    "loss before gradient": (-INF, [NAN, NAN], NonFiniteLoss(-INF)),
    "gradient": (1.0, [0.0, INF], NonFiniteGradient(1, INF)),
    "sum of losses before sums of gradients": (LARGE, [0.0, LARGE], NonFiniteAccumulation("loss", None, INF)),
    "sum of gradients": (0.0, [0.0, LARGE], NonFiniteAccumulation("gradient", 1, INF)),
}


@pytest.mark.parametrize(("loss", "gradient", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_refused_contribution_leaves_no_trace(
    loss: float, gradient: list[float], expected: CaiReferenceError
) -> None:
    """The mean is that of what was added before."""
    average = GradientAverage(2, contributions=1)
    average.add(LARGE, [1.0, LARGE])
    with raises(expected):
        average.add(loss, gradient)
    assert AverageGradient(LARGE, (1.0, LARGE)) == average.mean()


def test_a_mean_needs_all_of_its_contributions() -> None:
    """None at all is another error than too few or too many."""
    average = GradientAverage(1, contributions=2)
    with raises(EmptyAccumulator()):
        average.mean()
    average.add(1.0, [1.0])
    with raises(ContributionCountMismatch(2, 1)):
        average.mean()
    average.add(1.0, [1.0])
    average.add(1.0, [1.0])
    with raises(ContributionCountMismatch(2, 3)):
        average.mean()


def test_a_gradient_has_a_width() -> None:
    """At least one coordinate."""
    with raises(ZeroGradientWidth()):
        GradientAverage(0, 1)
