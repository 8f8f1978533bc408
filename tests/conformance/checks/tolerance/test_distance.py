"""How far rows of logits lie apart, against numbers worked by hand and NumPy's own spacing of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.checks.tolerance.distance import distance_between, unit_in_last_place

ROWS = st.lists(st.integers(-64, 64), min_size=1, max_size=6)


class TestUnit:
    """The distance of neighbouring numbers of a format."""

    @pytest.mark.parametrize(
        ("value", "precision", "unit"),
        [
            (1.0, "float64", 2.0**-52),
            (-3.0, "float64", 2.0**-51),
            (1.9999, "float32", 2.0**-23),
            (65504.0, "float16", 32.0),
            (1.0, "bfloat16", 2.0**-7),
            (256.0, "bfloat16", 2.0),
            (0.0, "float64", 5e-324),
            (0.0, "float32", 2.0**-149),
            (2.0**-30, "float16", 2.0**-24),
            (1e-40, "bfloat16", 2.0**-133),
        ],
    )
    def test_worked_by_hand(self, value: float, precision: str, unit: float) -> None:
        """Subnormal numbers lie as far apart as the smallest normal ones."""
        assert unit == unit_in_last_place(value, precision)

    @given(st.floats(width=16, allow_nan=False, allow_infinity=False))
    def test_numpy_spaces_its_formats_alike(self, value: float) -> None:
        """Every number of float16 is one of the three formats that NumPy has."""
        for name, kind in (("float16", np.float16), ("float32", np.float32), ("float64", np.float64)):
            if name == "float16" and abs(value) == float(np.finfo(np.float16).max):
                # NumPy's spacing is towards the next number, which is infinite.
                continue
            assert float(np.spacing(kind(abs(value)))) == unit_in_last_place(value, name)


class TestDistance:
    """Of a row and the right one."""

    def test_units_are_those_of_the_largest_magnitude(self) -> None:
        """Of 3, not of the logit that is off; the largest magnitude may be negative."""
        found = distance_between(np.array([0.5, -3.0]), np.array([0.5 + 2.0**-51, -3.0]), "float64")
        assert (2.0**-51, 1.0, 0) == (found.absolute, found.ulps, found.index)
        assert 2.0**-29 == distance_between(np.array([0.5, -3.0]), np.array([0.5 + 2.0**-51, -3.0]), "float32").ulps

    def test_equal_rows_are_no_way_apart(self) -> None:
        """Whatever the format."""
        row = np.array([1.0, -2.0, 0.25])
        found = distance_between(row, row.copy(), "bfloat16")
        assert (0.0, 0.0, 0.0, True) == (found.absolute, found.ulps, found.divergence, found.same_choice)

    def test_the_divergence_is_worked_by_hand(self) -> None:
        """Probabilities ¾ and ¼ against ½ and ½: ¾·ln(3/2) + ¼·ln(1/2)."""
        found = distance_between(np.array([math.log(3.0), 0.0]), np.array([0.0, 0.0]), "float64")
        assert math.isclose(0.75 * math.log(1.5) + 0.25 * math.log(0.5), found.divergence, rel_tol=1e-12)

    def test_of_equal_maxima_the_first_is_chosen(self) -> None:
        """As whoever generates greedily does."""
        right = np.array([1.0, 2.0, 2.0])
        assert distance_between(right, np.array([0.0, 2.0, 1.0]), "float64").same_choice
        assert not distance_between(right, np.array([0.0, 1.0, 2.0]), "float64").same_choice

    @given(ROWS, st.integers(-8, 8))
    def test_it_has_no_sign(self, logits: list[int], off: int) -> None:
        """A row is as far above as below."""
        row = np.array(logits, dtype=np.float64)
        above, below = (distance_between(row, row + sign * off, "float32") for sign in (1.0, -1.0))
        assert (above.absolute, above.ulps) == (below.absolute, below.ulps)
        assert above.absolute == abs(off)

    @given(ROWS, ROWS)
    def test_a_divergence_is_never_negative(self, one: list[int], other: list[int]) -> None:
        """And none where all logits moved alike."""
        size = min(len(one), len(other))
        right, found = np.array(one[:size], dtype=np.float64), np.array(other[:size], dtype=np.float64)
        assert distance_between(right, found, "float64").divergence >= 0.0
        assert distance_between(right, right + 3.0, "float64").divergence <= 1e-12

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_no_number_is_infinitely_far(self, value: float) -> None:
        """On either side, at its first place, also from itself."""
        whole, broken = np.array([1.0, 2.0, 3.0]), np.array([1.0, value, value])
        for pair in ((whole, broken), (broken, whole), (broken, broken)):
            found = distance_between(*pair, "float64")
            assert (math.inf, math.inf, math.inf, False, 1) == (
                found.absolute,
                found.ulps,
                found.divergence,
                found.same_choice,
                found.index,
            )

    def test_the_largest_numbers_give_no_warning(self) -> None:
        """Two finite logits may lie further apart than the largest number; what has no weight adds nothing."""
        found = distance_between(np.array([1e308, -1e308]), np.array([-1e308, 1e308]), "float64")
        assert (math.inf, math.inf, False) == (found.absolute, found.ulps, found.same_choice)
        assert 0.0 == distance_between(np.array([1e308, -1e308]), np.array([1e308, -1e308]), "float64").divergence
        masked = distance_between(np.array([0.0, -1e30]), np.array([0.0, -2e30]), "float64")
        assert 0.0 == masked.divergence
