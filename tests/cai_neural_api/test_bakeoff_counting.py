"""Counters of decode runs against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.bakeoff.verdicts import buckets, distinct, repeated_trigrams, smallest_margin
from cai_neural_api.decode.arms import ArmRun
from cai_neural_api.decode.paths import Prediction


def run_of(steps: Sequence[tuple[int, float]] = (), logits: Sequence[Sequence[float]] = ()) -> ArmRun:
    """Return a run with these steps and choices."""
    predictions = tuple(Prediction(np.array(row), np.array(row)) for row in logits)
    return ArmRun((1, 2), tuple(each.choice for each in predictions), predictions, 0, 0, 0.0, tuple(steps))


class TestBuckets:
    """Steps by the length of the sequence before them: below 16, 16 to 31, from 32 on."""

    def test_bounds_belong_to_the_longer_bucket(self) -> None:
        """15 | 16 … 31 | 32."""
        found = buckets([run_of([(15, 0.001), (16, 0.002), (31, 0.004), (32, 0.005)])])
        assert [("<16", 1), ("16-31", 2), (">=32", 1)] == [(bucket.name, bucket.steps) for bucket in found]
        assert [1.0, 3.0, 5.0] == pytest.approx([bucket.milliseconds for bucket in found])

    def test_runs_are_taken_together(self) -> None:
        """Two prompts, one mean."""
        found = buckets([run_of([(3, 0.001)]), run_of([(7, 0.002), (8, 0.006)])])
        assert ("<16", 3) == (found[0].name, found[0].steps)
        assert pytest.approx(3.0) == found[0].milliseconds
        assert 1 == len(found)

    def test_empty_buckets_are_left_out(self) -> None:
        """Nothing is said about lengths that did not occur."""
        assert ["16-31"] == [bucket.name for bucket in buckets([run_of([(20, 0.001)])])]
        assert () == buckets([])


class TestRepeatedTrigrams:
    """Places at which a trigram begins that began earlier; the first three never count."""

    @pytest.mark.parametrize(
        ("ids", "count"),
        [
            ([], 0),
            ([1, 2, 3], 0),
            ([1, 2, 3, 1, 2], 0),
            ([1, 2, 3, 1, 2, 3], 1),
            ([1, 2, 3, 1, 2, 3, 1, 2, 3], 4),
            # Places 1 and 2 repeat place 0, but do not count; place 3 does.
            ([5, 5, 5, 5, 5], 0),
            ([5, 5, 5, 5, 5, 5], 1),
            # A trigram that began inside another one.
            ([1, 2, 1, 2, 1, 2], 1),
            ([1, 2, 3, 4, 5, 6], 0),
        ],
    )
    def test_worked_out_by_hand(self, ids: list[int], count: int) -> None:
        """As published."""
        assert count == repeated_trigrams(ids)

    @settings(max_examples=40)
    @given(st.lists(st.integers(0, 2), max_size=24))
    def test_equals_the_definition_in_plain_loops(self, ids: list[int]) -> None:
        """For i from s + 3 to s + n - 3, some j from s to i - 1 has the same three tokens."""
        n, count = len(ids), 0
        for i in range(3, n - 2):
            for j in range(i):
                if ids[i] == ids[j] and ids[i + 1] == ids[j + 1] and ids[i + 2] == ids[j + 2]:
                    count += 1
                    break
        assert count == repeated_trigrams(ids)


class TestVariety:
    """What makes an equality of tokens mean something."""

    def test_different_ids_are_counted_once(self) -> None:
        """Not how often they occur."""
        assert 3 == distinct([7, 9, 7, 7, 1])

    def test_the_smallest_margin_is_that_of_the_closest_choice(self) -> None:
        """The logit that was chosen, less the next one."""
        assert pytest.approx(0.25) == smallest_margin(run_of(logits=[[0.0, 2.0, 1.0], [3.0, 2.75, 1.0]]))

    def test_a_run_without_choices_has_none(self) -> None:
        """Not zero, which would be a tie."""
        assert smallest_margin(run_of()) is None
