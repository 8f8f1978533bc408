"""Comparing one kind of quantity: what counts, what is over a tolerance, and which place is named."""

from __future__ import annotations

import math

import numpy as np

from cai_neural_api.verify.session_checks import Measure, SampleComparison


class TestNumbers:
    """Numbers within a tolerance."""

    def test_the_largest_error_is_kept_and_the_first_place_named(self) -> None:
        """Not the worst place, but the first one over the tolerance."""
        tally = SampleComparison("rows", "file", 0.01, Measure.ABSOLUTE)
        tally.numbers([[1.0, 2.0], [3.0, 4.0]], np.array([[1.005, 2.1], [3.5, 4.0]]), "row 3", "channel")
        assert (4, 0.5, False) == (tally.values, tally.largest, tally.passed)
        assert "row 3, channel 0, 1: expected 2, found 2.1" == tally.first

    def test_a_single_number_can_fail(self) -> None:
        """Its index is empty, which must not look like nothing found."""
        tally = SampleComparison("losses", "file", 0.01, Measure.ABSOLUTE)
        tally.numbers(1.0, np.array(2.0), "row 3", "channel")
        assert ("row 3: expected 1, found 2", False) == (tally.first, tally.passed)

    def test_an_error_as_large_as_the_tolerance_passes(self) -> None:
        """The tolerance is the largest error that does."""
        tally = SampleComparison("rows", "file", 0.5, Measure.ABSOLUTE)
        tally.numbers([1.0], np.array([1.5]), "row 3", "channel")
        assert (0.5, True) == (tally.largest, tally.passed)

    def test_not_a_number_fails(self) -> None:
        """A comparison with NaN is never over a tolerance, but it is no agreement."""
        tally = SampleComparison("rows", "file", 0.5, Measure.ABSOLUTE)
        tally.numbers([1.0, 2.0], np.array([1.0, np.nan]), "row 3", "channel")
        assert (math.inf, False) == (tally.largest, tally.passed)

    def test_another_shape_fails(self) -> None:
        """Its sizes are told."""
        tally = SampleComparison("rows", "file", 0.5, Measure.ABSOLUTE)
        tally.numbers([1.0, 2.0], np.array([1.0]), "row 3", "channel")
        assert "row 3: expected 2, found 1" == tally.first
        assert not tally.passed

    def test_errors_are_relative_to_a_scale(self) -> None:
        """As gradients are to the largest of their layer."""
        tally = SampleComparison("gradients", "file", 0.1, Measure.OF_LAYER)
        tally.numbers([100.0], np.array([101.0]), "row 3", "channel", scale=100.0)
        assert (0.01, True) == (tally.largest, tally.passed)

    def test_numbers_that_have_to_be_equal_are_counted(self) -> None:
        """The smallest difference is one."""
        tally = SampleComparison("initial values", "file")
        tally.numbers([1.0, 2.0, 3.0], np.array([1.0, np.nextafter(2.0, 3.0), 4.0]), "row 3", "channel")
        assert (3, 2.0, False) == (tally.values, tally.largest, tally.passed)


class TestTokens:
    """Ids behind a prompt."""

    def test_only_new_tokens_count(self) -> None:
        """The prompt was given."""
        tally = SampleComparison("tokens", "file")
        tally.tokens([7, 8, 9], [7, 8, 9], 1, "prompt 0")
        assert (2, True) == (tally.values, tally.passed)

    def test_an_end_too_early_is_a_difference(self) -> None:
        """On either side."""
        for expected, found in (([7, 8, 9], [7, 8]), ([7, 8], [7, 8, 9])):
            tally = SampleComparison("tokens", "file")
            tally.tokens(expected, found, 1, "prompt 0")
            assert 1.0 == tally.largest
            assert "the end of the sequence" in tally.first

    def test_nothing_compared_passes_with_no_values(self) -> None:
        """So that whoever asks can see that nothing was judged."""
        tally = SampleComparison("tokens", "file")
        assert (0, True) == (tally.values, tally.passed)
