"""Rotary positions in both layouts, and both ways to make the frequencies."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.errors import LayerError
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, rotate, rotation
from support_differences import check_gradients, drawn
from support_refusals import raises

TAPE = Tape(STRICT, recording=False)
ADJACENT, HALF_SPLIT = RopeLayout.ADJACENT, RopeLayout.HALF_SPLIT
EXPONENTIAL, NEAREST = Frequencies.EXPONENTIAL, Frequencies.NEAREST


def turned(x: Array, start: int, base: float, layout: RopeLayout, frequencies: Frequencies = EXPONENTIAL) -> Array:
    """Rotate constants [..., tokens, width]."""
    return rotate(TAPE, TAPE.constant(x), start, Rope(base, layout, frequencies)).value


def thetas(width: int, base: float, frequencies: Frequencies, arithmetic: Arithmetic = STRICT) -> list[float]:
    """Return the frequencies: the angles at position 1 are read from a sine, so small ones are exact enough to tell."""
    table = rotation(arithmetic, 1, 1, width, base, frequencies)
    return [math.atan2(s, c) for s, c in zip(table.sines[0].tolist(), table.cosines[0].tolist(), strict=True)]


class TestLayouts:
    """Which features are turned together."""

    def test_half_split_by_hand(self) -> None:
        """Width 4, base 100, position 2: (1, 3) turns by 2 and (2, 4) by 0.2."""
        c, s, cc, ss = math.cos(2.0), math.sin(2.0), math.cos(0.2), math.sin(0.2)
        expected = [c - 3.0 * s, 2.0 * cc - 4.0 * ss, s + 3.0 * c, 2.0 * ss + 4.0 * cc]
        actual = turned(np.array([[1.0, 2.0, 3.0, 4.0]]), 2, 100.0, HALF_SPLIT)
        assert pytest.approx(expected, abs=1e-14) == actual[0].tolist()

    def test_adjacent_by_hand(self) -> None:
        """The same numbers: (1, 2) turns by 2 and (3, 4) by 0.2."""
        c, s, cc, ss = math.cos(2.0), math.sin(2.0), math.cos(0.2), math.sin(0.2)
        expected = [c - 2.0 * s, s + 2.0 * c, 3.0 * cc - 4.0 * ss, 3.0 * ss + 4.0 * cc]
        actual = turned(np.array([[1.0, 2.0, 3.0, 4.0]]), 2, 100.0, ADJACENT)
        assert pytest.approx(expected, abs=1e-14) == actual[0].tolist()

    def test_the_formula_of_other_libraries(self) -> None:
        """Each row times cos, plus the row with its second half negated in front times sin; tables laid out twice."""
        width, base = 8, 10000.0
        x = drawn((5, width), 3)
        angles = np.arange(7, 12)[:, None] * base ** (-np.arange(0, width, 2) / width)
        cosines, sines = (np.tile(function(angles), 2) for function in (np.cos, np.sin))
        half = np.concatenate([-x[:, width // 2 :], x[:, : width // 2]], axis=1)
        assert np.allclose(x * cosines + half * sines, turned(x, 7, base, HALF_SPLIT), rtol=0.0, atol=1e-13)

    @pytest.mark.parametrize("width", [2, 4, 6, 12])
    def test_one_is_the_other_with_features_reordered(self, width: int) -> None:
        """Every second feature first, then the rest: the same bits."""
        x = drawn((2, 3, width), 5)
        order = [*range(0, width, 2), *range(1, width, 2)]
        adjacent, split = turned(x, 3000, 50.0, ADJACENT), turned(x[..., order], 3000, 50.0, HALF_SPLIT)
        assert adjacent[..., order].tobytes() == split.tobytes()
        assert (adjacent.tobytes() == turned(x, 3000, 50.0, HALF_SPLIT).tobytes()) == (width == 2)

    @pytest.mark.parametrize("layout", RopeLayout)
    def test_position_zero_is_not_turned(self, layout: RopeLayout) -> None:
        """The angle is 0 for every pair, and zeros are positive."""
        x = drawn((1, 6), 8)
        assert x.tobytes() == turned(x, 0, 1e4, layout).tobytes()
        assert not np.signbit(turned(np.full((1, 4), -0.0), 0, 1e4, layout)).any()

    @pytest.mark.parametrize("layout", RopeLayout)
    def test_products_depend_on_distance_alone(self, layout: RopeLayout) -> None:
        """A query and a key five apart, from the start and from 3000 on."""
        query, key = drawn((1, 8), 1), drawn((1, 8), 2)
        products = [
            (turned(query, start + 5, 1e4, layout) * turned(key, start, 1e4, layout)).sum() for start in (0, 3000)
        ]
        assert abs(products[0] - products[1]) < 1e-11

    @pytest.mark.parametrize("layout", RopeLayout)
    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
    def test_gradients_are_turned_back(self, arithmetic: Arithmetic, layout: RopeLayout) -> None:
        """Every element, against central differences."""
        check_gradients(lambda tape, p: rotate(tape, p[0], 3, Rope(50.0, layout)), [drawn((2, 3, 6), 4)], arithmetic)

    def test_features_come_in_pairs(self) -> None:
        """An odd width has no half."""
        for layout in RopeLayout:
            with raises(LayerError("odd-rope-width", width=5)):
                rotate(TAPE, Parameter("x", np.ones((1, 5))), 0, Rope(1e4, layout))


def nearest_by_digits(base: float, pair: int, width: int) -> float:
    """Return base^(−2j/w), rounded once from a hundred digits."""
    with localcontext() as context:
        context.prec = 100
        return float(Decimal(base) ** (Decimal(-2 * pair) / Decimal(width)))


class TestFrequencies:
    """Powers of the base: through exp and log, or the nearest doubles."""

    @pytest.mark.parametrize("base", [100.0, 10000.0, 500000.0, 1.5, 0.3, 1.0, 2.0**-90])
    @pytest.mark.parametrize("width", [2, 4, 6, 16])
    def test_nearest_is_nearest(self, base: float, width: int) -> None:
        """The table at position 1 is the sine of exactly these angles, in every arithmetic."""
        expected = np.array([nearest_by_digits(base, pair, width) for pair in range(width // 2)])
        for arithmetic in (STRICT, LIBM):
            table = rotation(arithmetic, 1, 1, width, base, NEAREST)
            assert arithmetic.sin(expected).tobytes() == table.sines[0].tobytes()
            assert arithmetic.cos(expected).tobytes() == table.cosines[0].tobytes()

    def test_the_frequencies_of_the_course(self) -> None:
        """Exactly 1 and 0.1 at base 100, 1 and 0.01 at base 10000 (course, chapters 29 and 39)."""
        for base, second in ((100.0, 0.1), (10000.0, 0.01)):
            table = rotation(LIBM, 5, 1, 4, base, NEAREST)
            assert [math.sin(5.0), math.sin(5.0 * second)] == table.sines[0].tolist()
            assert [math.cos(5.0), math.cos(5.0 * second)] == table.cosines[0].tolist()

    def test_through_exp_and_log_a_few_ulp_are_lost(self) -> None:
        """At base 10000 and width 128 some frequencies differ, none by more than 16."""
        exponential, nearest = (rotation(STRICT, 1, 1, 128, 1e4, way).sines[0] for way in (EXPONENTIAL, NEAREST))
        ulps = np.abs(exponential - nearest) / np.spacing(nearest)
        assert 0.0 < np.max(ulps) <= 16.0

    def test_the_bits_of_exp_and_log(self) -> None:
        """exp((−2j/w) · log base), multiplied by the position."""
        exponents = np.array([(-2.0 * j) / 6.0 for j in range(3)])
        angles = 41.0 * STRICT.exp(exponents * STRICT.log(np.array(50.0)))
        assert STRICT.sin(angles).tobytes() == rotation(STRICT, 41, 1, 6, 50.0).sines[0].tobytes()

    def test_small_bases_have_large_frequencies(self) -> None:
        """A base below 1 turns later pairs faster."""
        assert pytest.approx([1.0, 2.0], abs=1e-14) == thetas(4, 0.25, NEAREST)
