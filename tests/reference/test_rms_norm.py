"""RMSNorm: by hand, against loops in the stated order of operations, and where it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.errors import AutogradError, LayerError
from cai_reference.layers.rms_norm import InverseForm, RmsNorm, rms_norm
from support_decoder_description import Elementary
from support_decoder_elementary import LIBM as C_LIBRARY
from support_decoder_elementary import strict_elementary
from support_differences import check_gradients, drawn
from support_refusals import raises

FORMS = list(InverseForm)
NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)


def leaf(values: object) -> Parameter:
    """Return a leaf that is differentiated."""
    return Parameter("leaf", np.array(values, dtype=np.float64))


def normed(x: object, gain: object, epsilon: float, form: InverseForm, arithmetic: Arithmetic = STRICT) -> Array:
    """Normalise constants."""
    return rms_norm(Tape(arithmetic, recording=False), leaf(x), leaf(gain), epsilon, form).value


def inverse_by_hand(
    row: Sequence[float], epsilon: float, form: InverseForm, functions: Elementary
) -> tuple[float, float]:
    """Return mean square + ε, and its inverse root."""
    total = 0.0
    for x in row:
        total += x * x
    shifted = total / float(len(row)) + epsilon
    if form is InverseForm.INVERSE_ROOT:
        return shifted, 1.0 / math.sqrt(shifted)
    return shifted, functions.exp(functions.log(shifted) * (-0.5))


class TestValues:
    """The formula, and the order in which it is computed."""

    @pytest.mark.parametrize("form", FORMS)
    def test_the_example_of_the_course(self, form: InverseForm) -> None:
        """3 and 4 have the mean square 12.5; ε is 1e-5, the gains 1.5 and ½ (course, chapter 25)."""
        root = math.sqrt(12.50001)
        expected = [3.0 / root * 1.5, 4.0 / root * 0.5]
        assert pytest.approx(expected, rel=1e-15) == normed([3.0, 4.0], [1.5, 0.5], 1e-5, form).tolist()

    @pytest.mark.parametrize("form", FORMS)
    def test_epsilon_stands_inside_the_root(self, form: InverseForm) -> None:
        """On the small row 3e-4, 4e-4 it outweighs the mean square 1.25e-7; ten times the row is no longer alike."""
        for factor in (1.0, 10.0):
            row = [3e-4 * factor, 4e-4 * factor]
            root = math.sqrt(1.25e-7 * factor * factor + 1e-5)
            assert pytest.approx([x / root for x in row], rel=1e-14) == normed(row, [1.0, 1.0], 1e-5, form).tolist()

    def test_without_epsilon_a_power_of_two_changes_no_bit(self) -> None:
        """By the inverse root: every step scales exactly."""
        row = drawn((7,), 3)
        one, other = (normed(factor * row, np.ones(7), 0.0, InverseForm.INVERSE_ROOT) for factor in (1.0, 1024.0))
        assert one.tobytes() == other.tobytes()

    @pytest.mark.parametrize("form", FORMS)
    def test_zeros_stay_zeros_where_there_is_an_epsilon(self, form: InverseForm) -> None:
        """Nothing is divided by zero."""
        assert [0.0, 0.0] == normed([0.0, 0.0], [2.0, 3.0], 1e-5, form).tolist()

    @given(
        row=st.lists(NUMBERS, min_size=1, max_size=6),
        gains=st.lists(NUMBERS, min_size=6, max_size=6),
        epsilon=st.sampled_from([1e-6, 1e-5, 0.25]),
        form=st.sampled_from(FORMS),
    )
    @settings(max_examples=12)
    def test_the_order_of_operations(
        self, row: list[float], gains: list[float], epsilon: float, form: InverseForm
    ) -> None:
        """Sum, divide, add ε, invert, times the inverse, times the gain: the bits of a loop, in both arithmetics."""
        gain = gains[: len(row)]
        for arithmetic, functions in ((STRICT, strict_elementary()), (LIBM, C_LIBRARY)):
            _, inverse = inverse_by_hand(row, epsilon, form, functions)
            expected = np.array([(x * inverse) * g for x, g in zip(row, gain, strict=True)])
            assert expected.tobytes() == normed(row, gain, epsilon, form, arithmetic).tobytes()

    def test_the_forms_are_two_orders_of_operations(self) -> None:
        """Within rounding of each other, and not the same bits."""
        rows, gain = drawn((50, 4), 5), np.ones(4)
        root, exponential = (normed(rows, gain, 1e-6, form) for form in FORMS)
        assert np.allclose(root, exponential, rtol=1e-14, atol=0.0)
        assert root.tobytes() != exponential.tobytes()

    def test_a_row_knows_no_other(self) -> None:
        """Alone, in a sequence or in a batch, a row has the same bits."""
        rows, gain = drawn((2, 3, 5), 7), drawn((5,), 8)
        together = normed(rows, gain, 1e-5, InverseForm.EXPONENTIAL)
        for index in np.ndindex(2, 3):
            alone = normed(rows[index], gain, 1e-5, InverseForm.EXPONENTIAL)
            assert alone.tobytes() == together[index].tobytes()

    def test_a_layer_starts_with_gains_of_one(self) -> None:
        """Under its name."""
        norm = RmsNorm.initialize("final_norm", 3, 1e-5, InverseForm.INVERSE_ROOT)
        assert [("final_norm.gain", [1.0, 1.0, 1.0])] == [(p.name, p.value.tolist()) for p in norm.parameters()]


class TestGradients:
    """Against central differences, and against loops in the stated order."""

    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
    @pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.5])
    @pytest.mark.parametrize("form", FORMS)
    def test_slopes(self, form: InverseForm, epsilon: float, arithmetic: Arithmetic) -> None:
        """Every element of rows and of unequal gains."""

        def build(tape: Tape, p: list[Parameter]) -> Variable:
            return rms_norm(tape, p[0], p[1], epsilon, form)

        check_gradients(build, [drawn((2, 3, 4), 1), drawn((4,), 2)], arithmetic)

    @pytest.mark.parametrize("form", FORMS)
    def test_the_order_of_the_sums(self, form: InverseForm) -> None:
        """The bits of a loop: three terms into each element of x, rows in order into each gain."""
        rows, gains, adjoint = drawn((2, 3, 4), 11), drawn((4,), 12), drawn((2, 3, 4), 13)
        x, gain = leaf(rows), leaf(gains)
        backward(rms_norm(Tape(STRICT), x, gain, 1e-3, form), adjoint)
        toward_x, toward_gain = np.zeros(rows.shape), [0.0] * 4
        for index in np.ndindex(2, 3):
            row, g = rows[index].tolist(), adjoint[index].tolist()
            shifted, inverse = inverse_by_hand(row, 1e-3, form, strict_elementary())
            toward_inverse = 0.0
            for k in range(4):
                toward_inverse += (g[k] * gains[k]) * row[k]
                toward_gain[k] += g[k] * (row[k] * inverse)
            square = (((toward_inverse * inverse) * -0.5) / shifted) / 4.0
            for k in range(4):
                toward_x[(*index, k)] = (((g[k] * gains[k]) * inverse) + square * row[k]) + square * row[k]
        assert toward_x.tobytes() == x.gradient.tobytes()
        assert np.array(toward_gain).tobytes() == gain.gradient.tobytes()

    def test_without_epsilon_length_has_no_slope(self) -> None:
        """A longer row gives the same, so the gradient stands at right angles to the row."""
        x, gain = leaf(drawn((5, 6), 21)), leaf(drawn((6,), 22))
        backward(rms_norm(Tape(STRICT), x, gain, 0.0, InverseForm.INVERSE_ROOT), drawn((5, 6), 23))
        assert np.max(np.abs((x.gradient * x.value).sum(axis=1))) < 1e-14


class TestRefusals:
    """What has no norm."""

    @pytest.mark.parametrize("epsilon", [-1e-12, math.nan, math.inf, -math.inf])
    def test_an_epsilon_is_finite_and_not_negative(self, epsilon: float) -> None:
        """Zero is allowed."""
        with raises(LayerError("invalid-norm-epsilon", epsilon=epsilon)):
            RmsNorm.initialize("n", 2, epsilon, InverseForm.INVERSE_ROOT)
        RmsNorm.initialize("n", 2, 0.0, InverseForm.INVERSE_ROOT)

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("small", [0.0, -0.0, 1e-170])
    def test_a_row_without_energy_needs_an_epsilon(self, form: InverseForm, small: float) -> None:
        """The first such row is named, counted through batch and tokens; squares that vanish are none."""
        rows = [[[1.0, 2.0], [3.0, 0.0]], [[small, small], [0.0, 0.0]]]
        with raises(LayerError("zero-energy-row", row=2)):
            normed(rows, [1.0, 1.0], 0.0, form)
        assert np.isfinite(normed(rows, [1.0, 1.0], 1e-5, form)).all()

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
    def test_a_square_beyond_binary64_is_not_zero(self, form: InverseForm, arithmetic: Arithmetic) -> None:
        """Its inverse would be, and the row would vanish without a word."""
        with raises(AutogradError("non-finite-forward", operation="mean square", index=1, value=math.inf)):
            normed([[1.0, 1.0], [1e200, 1.0]], [1.0, 1.0], 1e-5, form, arithmetic)

    def test_a_result_beyond_binary64(self) -> None:
        """A gain can be too large."""
        with raises(AutogradError("non-finite-forward", operation="rms norm", index=1, value=math.inf)):
            normed([0.0, 1.0], [1.0, 1.7e308], 0.0, InverseForm.INVERSE_ROOT)
