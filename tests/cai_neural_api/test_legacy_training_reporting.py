"""What the library reports of a batch: loss, error and accuracy, each with its oddity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cai_neural_api.training.pairs import NO_TARGET, BatchReport, Ids, combine, difference, make_pairs, report
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT

NONE = NO_TARGET


def reported(output: Array, targets: Ids, arithmetic: Arithmetic = STRICT) -> BatchReport:
    """Report a batch, with the difference that belongs to it."""
    return report(arithmetic, output, targets, difference(output, targets))


def single(*rows: Sequence[float]) -> Array:
    """Return one example of output rows."""
    return np.array([rows], np.float64)


def targets(*rows: Sequence[int]) -> Ids:
    """Return the targets of one example, a list of heads a row."""
    return np.array([rows], np.intp)


def oracle(output: Array, wanted: Ids) -> tuple[float, float, float]:
    """Report with plain loops over dense one-hot targets, as the library has them."""
    losses, errors, hits = [], [], 0
    heads = wanted.shape[2]
    for example, hot in zip(output.tolist(), wanted.tolist(), strict=True):
        depth = len(example[0])
        dense = [[0.0] * depth for _ in example]
        for row, ids in zip(dense, hot, strict=True):
            for head, token in enumerate(ids):
                if token != NONE:
                    row[head * (depth // heads) + token] = 1.0
        row_losses = []
        for number, row in enumerate(dense):
            if max(row) > 0.0:
                channel = row.index(max(row))
                p = float(np.float32(example[0 if channel == 0 else number][channel]))
                row_losses.append(-math.log(p) if p > 0.0 else 100.0)
        losses.append(sum(row_losses) / len(row_losses) if row_losses else 0.0)
        rows = zip(example, dense, strict=True)
        errors.append(sum(abs(p - y) for row, hot_row in rows for p, y in zip(row, hot_row, strict=True)))
        last = example[-1]
        hits += last.index(max(last)) == dense[-1].index(max(dense[-1]))
    return sum(losses) / len(losses), sum(errors) / len(errors), hits / len(losses)


class TestLoss:
    """The mean over rows of −ln p."""

    def test_it_is_the_mean_over_rows_of_the_target_in_nats(self) -> None:
        """Two rows with targets that are not 0."""
        found = reported(single((0.25, 0.5, 0.25), (0.125, 0.125, 0.75)), targets([1], [2])).loss
        assert math.isclose(-(math.log(0.5) + math.log(0.75)) / 2.0, found, rel_tol=1e-7)

    def test_a_target_0_is_looked_up_in_row_0(self) -> None:
        """Row 1 gives id 0 three quarters, row 0 an eighth: the eighth counts."""
        found = reported(single((0.125, 0.875), (0.75, 0.25)), targets([1], [0])).loss
        assert math.isclose(-(math.log(0.875) + math.log(0.125)) / 2.0, found, rel_tol=1e-7)

    def test_what_binary32_cannot_hold_counts_100(self) -> None:
        """The smallest number it holds is 2^−149; half of that rounds to 0."""
        assert reported(single((2.0**-150, 1.0), (1.0, 0.0)), targets([0], [1])).loss == 100.0
        held = reported(single((2.0**-149, 1.0), (0.0, 1.0)), targets([0], [1])).loss
        assert math.isclose(149.0 * math.log(2.0) / 2.0, held, rel_tol=1e-12)

    def test_of_several_heads_only_the_first_target_of_a_row_counts(self) -> None:
        """Head 0's; a row without one is left out, whatever the other heads want."""
        output = single((0.25, 0.75, 0.5, 0.5), (0.5, 0.5, 0.125, 0.875))
        found = reported(output, targets([1, 0], [NONE, NONE])).loss
        assert math.isclose(-math.log(0.75), found, rel_tol=1e-7)

    def test_an_example_without_targets_loses_nothing(self) -> None:
        """There is no row to take a mean of."""
        assert reported(single((0.5, 0.5, 0.5, 0.5)), targets([NONE, NONE])).loss == 0.0


class TestErrorAndAccuracy:
    """The other two numbers."""

    def test_the_error_is_the_sum_of_all_distances(self) -> None:
        """Of the whole example, rows without target included."""
        output = single((0.25, 0.75, 0.5, 0.5), (0.5, 0.5, 0.25, 0.75))
        assert reported(output, targets([1, 0], [NONE, NONE])).error == 0.25 + 0.25 + 0.5 + 0.5 + 2.0

    def test_the_accuracy_asks_the_last_row_only(self) -> None:
        """Which is padding, aiming at id 0, for all but the longest stories."""
        wrong_before = single((0.25, 0.75), (0.25, 0.75), (0.75, 0.25))
        assert reported(wrong_before, targets([0], [0], [0])).accuracy == 1.0
        assert reported(wrong_before, targets([1], [1], [1])).accuracy == 0.0

    def test_equal_outputs_are_the_first(self) -> None:
        """Ties go to the lower id."""
        assert reported(single((0.5, 0.5)), targets([0])).accuracy == 1.0
        assert reported(single((0.5, 0.5)), targets([1])).accuracy == 0.0

    def test_a_last_row_without_targets_aims_at_channel_0(self) -> None:
        """Its largest target is the first of zeros."""
        assert reported(single((0.75, 0.25, 0.5, 0.5)), targets([NONE, NONE])).accuracy == 1.0
        assert reported(single((0.25, 0.5, 0.75, 0.25)), targets([NONE, NONE])).accuracy == 0.0

    def test_with_several_heads_the_lowest_channel_of_a_target_counts(self) -> None:
        """A head 0 without target leaves it to the next."""
        assert reported(single((0.1, 0.2, 0.3, 0.9)), targets([NONE, 1])).accuracy == 1.0
        assert reported(single((0.1, 0.2, 0.3, 0.9)), targets([1, 1])).accuracy == 0.0


class TestBatches:
    """Means over examples."""

    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda arithmetic: arithmetic.identifier)
    @pytest.mark.parametrize("heads", [1, 3])
    def test_a_batch_is_reported_as_plain_loops_report_it(self, heads: int, arithmetic: Arithmetic) -> None:
        """Short stories, long ones, and probabilities that vanish."""
        generator = np.random.default_rng(heads)
        logits = generator.normal(size=(7, 5, heads, 4)) * 60.0
        output = np.exp(logits - logits.max(axis=-1, keepdims=True))
        output = (output / output.sum(axis=-1, keepdims=True)).reshape(7, 5, heads * 4)
        stories = [generator.integers(0, 4, length).tolist() for length in (1, 2, 3, 4, 5, 6, 9)]
        wanted = make_pairs(stories, 5, 4, heads).targets
        found = reported(output, wanted, arithmetic)
        assert np.allclose(oracle(output, wanted), (found.loss, found.error, found.accuracy), rtol=1e-13)

    def test_parts_of_a_batch_weigh_as_much_as_their_examples(self) -> None:
        """Three examples and one."""
        both = combine([BatchReport(1.0, 2.0, 0.0), BatchReport(5.0, 10.0, 1.0)], [3, 1])
        assert BatchReport(2.0, 4.0, 0.25) == both

    def test_the_difference_is_output_minus_target(self) -> None:
        """In each head's own channels."""
        gap = difference(single((0.25, 0.75, 0.5, 0.5)), targets([1, 0]))
        assert [[[0.25, -0.25, -0.5, 0.5]]] == gap.tolist()
