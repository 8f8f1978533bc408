"""Softmax, its logarithm, its causal form, and the mean negative log-likelihood of indexed targets.

All of them share one way to normalise a row: subtract the maximum m, skip its first occurrence, and sum the
exponentials of the rest into `tail`, ascending. The skipped term is exactly 1, so the denominator is 1 + tail and its
logarithm log1p(tail), which stays accurate when one class dominates (course, chapters 12, 16 and 28).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable, first_non_finite
from cai_reference.errors import AutogradError


@dataclass(frozen=True)
class NormalizedRows:
    """Rows of logits, normalised along the last axis.

    Attributes:
        maximum: the largest logit of each row, the last axis kept with length 1.
        exponentials: exp(logit − maximum); 1 at every maximum, +0.0 where a row does not see a class.
        tail: the ascending sum of the exponentials without the first maximum, the last axis kept with length 1.
    """

    maximum: Array
    exponentials: Array
    tail: Array

    def probabilities(self) -> Array:
        """Return exp(logit − maximum) / (1 + tail), zeros positive."""
        return self.exponentials / (1.0 + self.tail) + 0.0


def normalize_rows(
    arithmetic: Arithmetic, logits: Array, visible: npt.NDArray[np.bool_] | None = None
) -> NormalizedRows:
    """Normalise along the last axis, over the classes that `visible` (broadcast to the logits) admits, or all."""
    seen = logits if visible is None else np.where(visible, logits, -np.inf)
    # argmax takes the first of equal maxima, which is the term that is skipped
    winner = np.argmax(seen, axis=-1, keepdims=True)
    maximum = np.take_along_axis(seen, winner, axis=-1)
    with np.errstate(over="ignore"):
        gap = seen - maximum
    exponentials = arithmetic.exp(gap)
    others = exponentials.copy()
    # its exponential is exactly 1 and is added last: 1 + tail
    np.put_along_axis(others, winner, 0.0, axis=-1)
    return NormalizedRows(maximum, exponentials, arithmetic.sum(others, axis=-1, keepdims=True))


def causal_softmax(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
    """Return probabilities of scores [..., tokens, tokens]; query q sees keys up to q, the rest are exactly +0.0.

    With a window W it sees the last W of them, itself included: keys q − W + 1 … q.

    Raises:
        AutogradError (causal-softmax-rank, causal-softmax-non-square, causal-softmax-empty-tokens): the scores are not
            square, or empty.
    """
    if len(scores.shape) < 2:
        raise AutogradError("causal-softmax-rank", rank=len(scores.shape))
    queries, keys = scores.shape[-2:]
    if queries != keys:
        raise AutogradError("causal-softmax-non-square", queries=queries, keys=keys)
    if queries == 0:
        raise AutogradError("causal-softmax-empty-tokens")
    arithmetic = tape.arithmetic
    distance = np.arange(queries)[:, None] - np.arange(keys)
    # not the future, and at most window − 1 tokens back
    visible = (distance >= 0) & (distance < (queries if window is None else window))
    rows = normalize_rows(arithmetic, scores.value, visible).probabilities()

    def pullback(adjoint: Array) -> tuple[Array]:
        return (softmax_pullback(arithmetic, rows, adjoint),)

    return tape.record("causal softmax", rows, (scores,), pullback)


def mean_nll(tape: Tape, logits: Variable, targets: Sequence[int]) -> Variable:
    """Return the mean over rows of −ln softmax(logits)[target], a scalar.

    Args:
        tape: what records.
        logits: shape [..., classes]; every row along the last axis is a group.
        targets: one class a group, in row-major order.

    Raises:
        As `mean_nll_of`.
    """
    rows, mean = _mean_nll(tape.arithmetic, logits.value, targets)
    groups = len(targets)

    def pullback(adjoint: Array) -> tuple[Array]:
        gradient = rows.probabilities().reshape(groups, -1)
        # d(−ln softmax) = p − 1 at the target, p elsewhere
        gradient[np.arange(groups), list(targets)] -= 1.0
        # the share of a row first, then the product: this order is defined
        return ((gradient * (adjoint / groups) + 0.0).reshape(logits.shape),)

    return tape.record("mean nll", np.asarray(mean), (logits,), pullback)


def mean_nll_of(arithmetic: Arithmetic, logits: Array, targets: Sequence[int]) -> float:
    """Return the mean negative log-likelihood of raw logits [..., classes], in nats.

    A row's loss is (maximum − target logit) + log1p(tail); the mean is the ascending sum over the rows, divided by
    their number. Where that overflows although each row's share does not, the shares are summed instead.

    Raises:
        AutogradError (axis-out-of-bounds, empty-normalization-axis, target-count-mismatch, empty-targets,
            target-out-of-bounds, nan-logit, positive-infinity-logit, negative-infinity-logit): looked for in this
            order, logits in row-major order.
    """
    return _mean_nll(arithmetic, logits, targets)[1]


def _mean_nll(arithmetic: Arithmetic, logits: Array, targets: Sequence[int]) -> tuple[NormalizedRows, float]:
    check_classes(logits.shape, logits.ndim - 1)
    classes = logits.shape[-1]
    groups = logits.size // classes
    if len(targets) != groups:
        raise AutogradError("target-count-mismatch", expected=groups, actual=len(targets))
    if groups == 0:
        raise AutogradError("empty-targets")
    for group, target in enumerate(targets):
        if not 0 <= target < classes:
            raise AutogradError("target-out-of-bounds", group=group, target=target, classes=classes)
    _check_logits(logits.reshape(groups, classes))
    rows = normalize_rows(arithmetic, logits.reshape(groups, classes))
    chosen = logits.reshape(groups, classes)[np.arange(groups), list(targets)]
    maximum, log_normalizer = rows.maximum[:, 0], arithmetic.log1p(rows.tail)[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        gap = maximum - chosen
        total = arithmetic.sum(gap + log_normalizer)
        if not np.isfinite(total):
            # the sum overflows but the mean need not: divide before adding
            shares = np.where(np.isfinite(gap), gap / groups, maximum / groups - chosen / groups)
            return rows, float(arithmetic.sum(shares + log_normalizer / groups)) + 0.0
    return rows, float(total / groups) + 0.0


def softmax_pullback(arithmetic: Arithmetic, probabilities: Array, adjoint: Array) -> Array:
    """Return p · (g − Σ g·p) along the last axis, the sum ascending."""
    weighted = arithmetic.sum(adjoint * probabilities, axis=-1, keepdims=True)
    return probabilities * (adjoint - weighted) + 0.0


def check_classes(shape: tuple[int, ...], axis: int) -> None:
    """Refuse an axis that is not there, or has no classes."""
    if not 0 <= axis < len(shape):
        raise AutogradError("axis-out-of-bounds", axis=axis, rank=len(shape))
    if shape[axis] == 0:
        raise AutogradError("empty-normalization-axis", axis=axis)


def _check_logits(rows: Array) -> None:
    index = first_non_finite(rows)
    if index is None:
        return
    group, class_index = divmod(index, rows.shape[1])
    value = rows[group, class_index]
    if np.isnan(value):
        raise AutogradError("nan-logit", group=group, class_index=class_index)
    raise (
        AutogradError("positive-infinity-logit", group=group, class_index=class_index)
        if value > 0
        else AutogradError("negative-infinity-logit", group=group, class_index=class_index)
    )
