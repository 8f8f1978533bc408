"""Distances: the first place beyond what is allowed, both values, and how far apart they are in each format."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_conformance.diagnosis.distances import NO_DISTANCE, absolute_gaps, measured, scale_of, ulp_between


class TestUnitsInTheLastPlace:
    """In binary64 and in the formats that engines compute in."""

    @pytest.mark.parametrize(("precision", "kind"), [("float32", np.float32), ("float16", np.float16)])
    def test_neighbours_are_one_apart(self, precision: str, kind: type[np.floating]) -> None:
        """As NumPy finds them, across zero and at powers of two."""
        for value in (1.0, -1.0, 0.1, 2.0, 1000.0):
            one = kind(value)
            other = np.nextafter(one, kind(np.inf))
            assert ulp_between(float(one), float(other), precision) == 1
            assert ulp_between(float(np.nextafter(other, kind(np.inf))), float(one), precision) == 2
        assert ulp_between(0.0, -0.0, precision) == 0

    def test_bfloat16_keeps_eight_bits(self) -> None:
        """From 1 to 2 there are 128 steps; ties go to the even neighbour."""
        assert ulp_between(1.0, 2.0, "bfloat16") == 128
        assert ulp_between(1.0, 1.0 + 2.0**-7, "bfloat16") == 1
        assert ulp_between(1.0, 1.0 + 2.0**-8, "bfloat16") == 0
        assert ulp_between(1.0, 1.0 + 3 * 2.0**-8, "bfloat16") == 2
        assert ulp_between(-1.0, 1.0, "bfloat16") == 2 * ulp_between(0.0, 1.0, "bfloat16")

    def test_what_is_no_number_has_no_distance(self) -> None:
        """Two of them are equal."""
        for precision in ("float64", "float32", "bfloat16", "float16"):
            assert ulp_between(math.nan, 1.0, precision) == NO_DISTANCE
            assert ulp_between(math.nan, math.nan, precision) == 0

    def test_beyond_a_format_is_its_infinity(self) -> None:
        """The neighbour of its largest number."""
        assert ulp_between(65504.0, 1e9, "float16") == 1
        assert ulp_between(1e300, math.inf, "float32") == 0


class TestMeasured:
    """One comparison of two arrays."""

    def test_the_first_value_beyond_the_floor_is_named(self) -> None:
        """Not the largest one, and not one within it."""
        expected = np.arange(6.0).reshape(2, 3)
        found = expected + np.array([[0.0, 1e-9, 0.0], [0.5, 0.0, 2.0]])
        apart = measured(expected, found, 1e-6)
        assert (apart.index, apart.expected, apart.found) == ((1, 0), 3.0, 3.5)
        assert (apart.beyond, apart.size, apart.largest) == (2, 6, 2.0)
        assert str(apart) == "[1][0] expected 3, found 3.5 (2 of 6 values differ, by at most 2)"

    def test_within_the_floor_the_largest_difference_is_named(self) -> None:
        """And nothing counts as different."""
        apart = measured(np.zeros(3), np.array([0.0, 1e-9, -3e-9]), 1e-8)
        assert (apart.agrees, apart.index, apart.beyond) == (True, (2,), 0)

    def test_a_distance_that_says_something_is_printed(self) -> None:
        """In the backend's own format."""
        apart = measured(np.array([1.0]), np.array([1.0 + 2.0**-22]), 0.0, "float32")
        assert "2 ULP of float32 apart" in str(apart)
        assert apart.ulp == 2**30

    def test_nan_and_infinity_differ_from_numbers_alone(self) -> None:
        """And equal themselves."""
        expected = np.array([math.nan, math.inf, math.inf, 1.0])
        found = np.array([math.nan, math.inf, -math.inf, math.nan])
        assert absolute_gaps(expected, found).tolist() == [0.0, 0.0, math.inf, math.inf]

    def test_a_floor_grows_with_the_values(self) -> None:
        """But does not shrink below what it is for values of 1."""
        assert scale_of(np.array([0.1, -0.2])) == 1.0
        assert scale_of(np.array([3.0, -40.0, math.inf])) == 40.0
