"""Clipping by the global norm: worked by hand, at its borders, and where plain squares would leave binary64."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter
from cai_reference.splitmix import SplitMix64
from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    GradientNormalization,
    GradientScale,
    ParameterGroups,
)
from cai_reference.training.clipping import clip_to, global_norm
from cai_reference.training.decoder_training import gradient_norm
from cai_reference.training.errors import TrainingError
from support_refusals import raises

TINIEST = 5e-324


def holding(*gradients: list[float]) -> list[Parameter]:
    """Return one parameter for each list of gradients."""
    parameters = []
    for index, values in enumerate(gradients):
        parameter = Parameter(f"p{index}", np.ones(len(values)))
        parameter.gradient = np.array(values)
        parameters.append(parameter)
    return parameters


class TestNorm:
    """One pass over all parameters, with the largest gradient so far as the unit."""

    def test_three_and_four_make_five(self) -> None:
        """Unit 3 with sum 1, then unit 4 with sum 1 + 0.75²; the order of the two does not matter here."""
        for gradients in ([3.0, -4.0], [-4.0, 3.0]):
            norm = global_norm(holding(gradients))
            assert (4.0, 1.25, 5.0) == (norm.scale, norm.root, norm.value)

    def test_zeros_are_left_out(self) -> None:
        """The first gradient that is not zero becomes the unit."""
        assert global_norm(holding([3.0, 4.0])) == global_norm(holding([0.0, 3.0, -0.0], [0.0], [4.0, 0.0]))

    def test_all_zero_gradients_have_norm_zero(self) -> None:
        """And are not clipped."""
        clip = clip_to(holding([0.0, -0.0]), 1.0)
        assert (0.0, 0.0, None, False) == (clip.before, clip.after, clip.transform, clip.clipped)

    def test_it_is_taken_over_all_tensors_together(self) -> None:
        """Not tensor by tensor, and not the squared norm."""
        assert 13.0 == global_norm(holding([3.0, 4.0], [12.0])).value

    def test_every_change_of_unit_scales_what_was_added(self) -> None:
        """1, 2, 4: (1 · ¼ + 1) · ¼ + 1 = 21/16, and 4 · √(21/16) = √21."""
        norm = global_norm(holding([1.0], [2.0], [4.0]))
        assert (4.0, math.sqrt(21.0 / 16.0)) == (norm.scale, norm.root)

    @pytest.mark.parametrize("size", [1e200, 1e-200])
    def test_squares_neither_overflow_nor_vanish(self, size: float) -> None:
        """The sum of plain squares is infinite, or zero."""
        parameters = holding([3.0 * size, 4.0 * size])
        assert math.isclose(5.0 * size, global_norm(parameters).value, rel_tol=1e-15)
        assert gradient_norm(parameters, STRICT) in (0.0, math.inf)

    def test_a_norm_beyond_the_largest_double_is_reported_as_that(self) -> None:
        """Four gradients of 1e308 have norm 2e308."""
        norm = global_norm(holding([1e308] * 4))
        assert (1e308, 2.0, sys.float_info.max) == (norm.scale, norm.root, norm.value)

    def test_elsewhere_it_is_the_plain_norm_but_for_rounding(self) -> None:
        """Over drawn gradients of very different sizes."""
        generator = SplitMix64(7)
        drawn = [[(2.0 * generator.unit() - 1.0) * 10.0 ** (place % 5) for place in range(9)] for _ in range(30)]
        parameters = holding(*drawn)
        exact = math.sqrt(math.fsum(value * value for values in drawn for value in values))
        assert math.isclose(exact, global_norm(parameters).value, rel_tol=1e-14)
        assert math.isclose(exact, gradient_norm(parameters, STRICT), rel_tol=1e-14)


class TestClip:
    """When and by what gradients are scaled."""

    def test_the_factor_is_the_limit_over_the_unit_over_the_root(self) -> None:
        """(1 / 4) / 1.25; the reported norm afterwards is the limit itself."""
        clip = clip_to(holding([3.0, 4.0]), 1.0)
        assert (5.0, 1.0, GradientScale(0.2)) == (clip.before, clip.after, clip.transform)

    def test_a_norm_at_the_limit_is_left_alone(self) -> None:
        """The next smaller limit clips."""
        at = clip_to(holding([3.0, 4.0]), 5.0)
        assert (5.0, 5.0, None) == (at.before, at.after, at.transform)
        assert clip_to(holding([3.0, 4.0]), math.nextafter(5.0, 0.0)).clipped

    def test_the_unit_is_compared_not_the_norm(self) -> None:
        """Among drawn gradients, with the limit at their norm, the two comparisons differ now and then."""
        generator = SplitMix64(11)
        differing = 0
        for _ in range(300):
            gradients = [generator.unit() for _ in range(3)]
            norm = global_norm(holding(gradients))
            for limit in (norm.value, math.nextafter(norm.value, 0.0), math.nextafter(norm.value, 9.0)):
                expected = norm.scale > limit / norm.root
                differing += expected != (norm.value > limit)
                assert expected == clip_to(holding(gradients), limit).clipped
        assert differing > 0

    def test_a_factor_that_underflows_is_split(self) -> None:
        """(1e-20 / 1e308) is 0, so gradients are divided by the unit first."""
        clip = clip_to(holding([6e307, 8e307]), 1e-20)
        assert GradientNormalization(8e307, 1e-20 / 1.25) == clip.transform
        assert (1e308, 1e-20) == (clip.before, clip.after)
        assert clip.transform is not None
        np.testing.assert_allclose(clip.transform(np.array([6e307, 8e307])), [6e-21, 8e-21], rtol=1e-15)

    def test_a_limit_that_vanishes_is_refused(self) -> None:
        """The smallest double over √5 is 0; over √2 it is not."""
        with raises(TrainingError("unrepresentable-gradient-clip", maximum=TINIEST, root=math.sqrt(5.0))):
            clip_to(holding([1.0] * 5), TINIEST)
        assert clip_to(holding([1.0] * 2), TINIEST).clipped

    def test_a_vanishing_limit_without_gradients_is_none(self) -> None:
        """Nothing is above it."""
        assert not clip_to(holding([0.0]), TINIEST).clipped

    def test_stored_gradients_stay_and_the_moments_see_clipped_ones(self) -> None:
        """The first moment after one step is 0.1 · (g · factor)."""
        parameters = holding([3.0, 4.0])
        optimizer = AdamW(AdamWConfiguration(0.01), ParameterGroups(("p0",)))
        optimizer.step(parameters, clip_to(parameters, 1.0).transform)
        assert [3.0, 4.0] == parameters[0].gradient.tolist()
        expected = [(1.0 - 0.9) * (3.0 * 0.2), (1.0 - 0.9) * (4.0 * 0.2)]
        assert expected == optimizer.state.moments["p0"].first.tolist()
