"""Softmax, log-softmax, causal softmax and the mean loss: hand numbers, SciPy, ties, overflow, order of checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.features import softmax
from cai_reference.autograd.probability import causal_softmax, mean_nll, mean_nll_of
from cai_reference.errors import AutogradError, CaiReferenceError
from support_differences import drawn
from support_ngram_oracle import mean_loss
from support_refusals import raises

ARITHMETICS = pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
rows = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.floats(-50.0, 50.0), min_size=width, max_size=width), min_size=1, max_size=4)
)


@ARITHMETICS
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scipy_agrees(arithmetic: Arithmetic, axis: int) -> None:
    """Along any axis."""
    from scipy import special  # type: ignore[import-untyped]

    logits = drawn((3, 4, 5), 12, 8.0)
    tape = Tape(arithmetic)
    constant = tape.constant(logits)
    np.testing.assert_allclose(softmax(tape, constant, axis).value, special.softmax(logits, axis), rtol=2e-15)


@ARITHMETICS
def test_causal_softmax_is_softmax_of_the_prefix(arithmetic: Arithmetic) -> None:
    """Query q sees keys 0…q in the same bits as a softmax over them alone; the rest is exactly zero."""
    scores = drawn((2, 5, 5), 13, 4.0)
    tape = Tape(arithmetic)
    weights = causal_softmax(tape, tape.constant(scores)).value
    for query in range(5):
        alone = softmax(tape, tape.constant(scores[:, query, : query + 1]), 1).value
        np.testing.assert_allclose(weights[:, query, : query + 1], alone, rtol=0.0 if arithmetic.bitwise else 1e-15)
        assert not weights[:, query, query + 1 :].any()


def test_a_future_score_changes_no_bit_of_the_past() -> None:
    """However large it is."""
    scores = drawn((4, 4), 14)
    changed = scores.copy()
    changed[np.triu_indices(4, 1)] = 1e300
    tape = Tape(STRICT)
    before, after = (causal_softmax(tape, tape.constant(values)).value for values in (scores, changed))
    assert before.tobytes() == after.tobytes()


def test_two_to_one_odds() -> None:
    """Logits that differ by ln 2 have probabilities 2/3 and 1/3."""
    tape = Tape(LIBM)
    (row,) = softmax(tape, tape.constant(np.array([[math.log(2.0), 0.0]])), 1).value.tolist()
    assert pytest.approx([2.0 / 3.0, 1.0 / 3.0], rel=2e-16) == row


@ARITHMETICS
@pytest.mark.parametrize("classes", [1, 2, 3, 266])
def test_equal_logits_cost_the_logarithm_of_their_number(arithmetic: Arithmetic, classes: int) -> None:
    """Exactly log1p(V − 1): one maximum is skipped, all other ties stay in the tail."""
    expected = float(arithmetic.log1p(float(classes - 1)))
    assert expected == mean_nll_of(arithmetic, np.full((1, classes), 0.7), [classes - 1])


def test_one_of_tied_maxima_is_skipped() -> None:
    """[2, 1, 2]: the tail is exp(−1) + 1, in ascending order."""
    expected = math.log1p(0.0 + math.exp(-1.0) + 1.0)
    assert expected == mean_nll_of(LIBM, np.array([[2.0, 1.0, 2.0]]), [0])
    assert 1.0 + expected == mean_nll_of(LIBM, np.array([[2.0, 1.0, 2.0]]), [1])


def test_a_confident_loss_keeps_its_small_digits() -> None:
    """log1p(exp(−40)) is far below the resolution of 1 + exp(−40)."""
    assert pytest.approx(math.exp(-40.0), rel=1e-15) == mean_nll_of(STRICT, np.array([[40.0, 0.0]]), [0])


@given(rows, st.data())
def test_the_plain_replica_has_the_same_bits(logits: list[list[float]], data: st.DataObject) -> None:
    """Any rows, any targets, through the C library."""
    targets = [data.draw(st.integers(0, len(row) - 1)) for row in logits]
    expected = mean_loss(logits, targets, math.exp, math.log1p)
    assert expected.hex() == mean_nll_of(LIBM, np.array(logits), targets).hex()


@given(rows)
def test_probabilities_are_a_distribution(logits: list[list[float]]) -> None:
    """Rows sum to 1, and a shift of all logits changes nothing much."""
    tape = Tape(STRICT)
    constant = tape.constant(np.array(logits))
    probabilities = softmax(tape, constant, 1).value
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(probabilities, softmax(tape, tape.constant(np.array(logits) - 3.0), 1).value, rtol=1e-13)


@ARITHMETICS
def test_the_mean_survives_an_overflowing_sum(arithmetic: Arithmetic) -> None:
    """Where the sum of losses is beyond the largest double, shares are summed instead."""
    finite_gaps = np.array([[1.5e308, 0.0], [1.5e308, 0.0]])
    assert 1.5e308 == mean_nll_of(arithmetic, finite_gaps, [1, 1])
    endless_gap = np.array([[1e308, -1e308], [1e308, -1e308]])
    assert 1e308 == mean_nll_of(arithmetic, endless_gap, [1, 0])
    for logits, targets in ((finite_gaps, [1, 1]), (endless_gap, [1, 0])):
        expected = mean_loss(logits.tolist(), targets, math.exp, math.log1p)
        assert expected == mean_nll_of(LIBM, logits, targets)


def test_a_mean_beyond_the_range_is_an_error_of_the_tape() -> None:
    """One row whose gap alone is too large."""
    tape = Tape(STRICT)
    with raises(AutogradError("non-finite-forward", operation="mean nll", index=0, value=math.inf)):
        mean_nll(tape, tape.constant(np.array([[1.5e308, -1.5e308]])), [1])


def test_rows_are_groups_in_row_major_order() -> None:
    """More axes are more rows."""
    logits = drawn((2, 2, 3), 15)
    flat = mean_nll_of(STRICT, logits.reshape(4, 3), [0, 1, 2, 0])
    assert flat == mean_nll_of(STRICT, logits, [0, 1, 2, 0])


NAN, INF = math.nan, math.inf
CHECKS: dict[str, tuple[list[object], list[int], CaiReferenceError]] = {
    "no class axis": ([], [0], AutogradError("axis-out-of-bounds", axis=-1, rank=0)),
    "no classes": ([[], []], [9], AutogradError("empty-normalization-axis", axis=1)),
    "target count before bounds": ([[NAN, 0.0]], [9, 9], AutogradError("target-count-mismatch", expected=1, actual=2)),
    "bounds before logits": (
        [[NAN, 0.0], [0.0, 0.0]],
        [0, 2],
        AutogradError("target-out-of-bounds", group=1, target=2, classes=2),
    ),
    "negative target": ([[0.0, 0.0]], [-1], AutogradError("target-out-of-bounds", group=0, target=-1, classes=2)),
    "NaN": ([[0.0, 0.0], [0.0, NAN], [INF, 0.0]], [0, 0, 0], AutogradError("nan-logit", group=1, class_index=1)),
    "+inf": ([[0.0, INF], [NAN, 0.0]], [0, 0], AutogradError("positive-infinity-logit", group=0, class_index=1)),
    "-inf": ([[-INF, INF]], [0], AutogradError("negative-infinity-logit", group=0, class_index=0)),
}


@pytest.mark.parametrize(("logits", "targets", "expected"), CHECKS.values(), ids=CHECKS)
def test_checks_come_in_order(logits: list[object], targets: list[int], expected: CaiReferenceError) -> None:
    """Axis, classes, target count, bounds, logits group by group."""
    values = np.array(logits, dtype=np.float64) if logits else np.array(1.0)
    with raises(expected):
        mean_nll_of(STRICT, values, targets)
